/* messages.h: forwards the messages of Vulkan's validation layer without Python.
 *
 * A message may come on any thread, inside any Vulkan call, also on the core's own threads while
 * they hold the core's locks. A callback that took the GIL there could deadlock with a thread that
 * waits for such a lock while it holds the GIL. So this callback only sends the message to a
 * socket.
 */
#ifndef VKSHARE_MESSAGES_H
#define VKSHARE_MESSAGES_H

#include <vulkan/vulkan_core.h>

/* native/python calls functions of this header: native/vkshare.map.in. */
#pragma GCC visibility push(default)

/* A PFN_vkDebugUtilsMessengerCallbackEXT whose user data is a socket's number (SOCK_SEQPACKET;
 * owned by the caller). Sends one packet per message: 'e' or 'w' (error, warning), the message's id
 * name, a 0, its text. Never blocks: messages that the socket has no room for are lost.
 * Thread-safe. Returns VK_FALSE, so that the call which caused the message continues. */
VkBool32 vks_message_callback(VkDebugUtilsMessageSeverityFlagBitsEXT severity, VkDebugUtilsMessageTypeFlagsEXT types,
                              const VkDebugUtilsMessengerCallbackDataEXT *data, void *user);

#pragma GCC visibility pop

#endif
