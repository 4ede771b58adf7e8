#include "backend/messages.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#define TEXT_LIMIT 16384u /* bytes of one message's text that are carried */

static struct iovec piece(const char *text, size_t limit)
{
    if (text == NULL)
        text = "";
    return (struct iovec){.iov_base = (void *)(uintptr_t)text, .iov_len = strnlen(text, limit)};
}

VkBool32 vks_message_callback(VkDebugUtilsMessageSeverityFlagBitsEXT severity, VkDebugUtilsMessageTypeFlagsEXT types,
                              const VkDebugUtilsMessengerCallbackDataEXT *data, void *user)
{
    (void)types;
    int saved = errno;
    char kind = severity >= VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT ? 'e' : 'w';
    char zero = 0;
    struct iovec parts[] = {
        {.iov_base = &kind, .iov_len = 1},
        piece(data->pMessageIdName, TEXT_LIMIT),
        {.iov_base = &zero, .iov_len = 1},
        piece(data->pMessage, TEXT_LIMIT),
    };
    struct msghdr packet = {.msg_iov = parts, .msg_iovlen = sizeof parts / sizeof parts[0]};
    sendmsg((int)(intptr_t)user, &packet, MSG_DONTWAIT | MSG_NOSIGNAL);
    errno = saved;
    return VK_FALSE;
}
