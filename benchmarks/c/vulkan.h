/* vulkan.h: Vulkan's own header, with no prototypes, and with all non-dispatchable handles as 64-bit integers, because
 * the benchmarks pass handles as Python's integers. Compile with -I native/third_party. */
#ifndef BENCHMARKS_VULKAN_H
#define BENCHMARKS_VULKAN_H

#define VK_NO_PROTOTYPES
#define VK_USE_64_BIT_PTR_DEFINES 0
#include <vulkan/vulkan_core.h>

#endif
