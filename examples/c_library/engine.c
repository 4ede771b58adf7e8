#include <stdint.h>
#include <stdio.h>
#include <vkshare.h>

static uint32_t pixels[64 * 64];

int main(void)
{
    vks_device *device;
    vks_surface *surface;
    vks_device_info device_info = {.name = "engine"};
    vks_surface_info info = {.width = 64,
                             .height = 64,
                             .format = VKS_FORMAT_RGBA8_UNORM,
                             .pixels = pixels,
                             .size = sizeof pixels,
                             .stride = 256};
    if (vks_device_create(&device_info, &device) != VKS_OK)
        return fprintf(stderr, "%s\n", vks_last_error()->text), 1;
    if (vks_surface_create(device, &info, &surface) != VKS_OK || vks_surface_acquire(surface, 0, VKS_FOREVER) != VKS_OK)
        return fprintf(stderr, "%s\n", vks_last_error()->text), 1;
    pixels[0] = 0xff0000ff;
    vks_status status = vks_surface_release(surface, 1);
    printf("vkshare %u.%u, status %d\n", vks_version() >> 22, vks_version() >> 12 & 0x3ff, (int)status);
    vks_surface_close(surface);
    vks_surface_unref(surface);
    vks_device_shutdown(device);
    vks_device_unref(device);
    return 0;
}
