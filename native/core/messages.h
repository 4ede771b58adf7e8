/* What Vulkan's validation layer says, carried away without Python.
 *
 * A message may come on any thread inside any Vulkan call, the core's own threads with the core's locks among them. A
 * callback that wanted the GIL there would wait for a thread that waits for such a lock. So this one only sends the
 * message to a socket.
 */
#ifndef VKSHARE_MESSAGES_H
#define VKSHARE_MESSAGES_H

#include <vulkan/vulkan_core.h>

/* A PFN_vkDebugUtilsMessengerCallbackEXT whose user data is a socket's number (SOCK_SEQPACKET; the caller's). Sends one
 * packet a message: 'e' or 'w' (error, warning), the message's id name, a 0, its text. Never blocks: messages that the
 * socket has no room for are lost. Thread-safe. Always returns VK_FALSE: the call that caused it goes on. */
VkBool32 vks_message_callback(VkDebugUtilsMessageSeverityFlagBitsEXT severity, VkDebugUtilsMessageTypeFlagsEXT types,
                              const VkDebugUtilsMessengerCallbackDataEXT *data, void *user);

#endif
