#include "raster/image.h"

#include "raster/planar.h"

// Below this a second thread's waking costs more than it saves.
#define WORTH_A_THREAD (256u * 1024u)
#define BANDS_PER_THREAD 4u // evens out threads that start late

const char *vks_raster_status_text(int status)
{
    switch (status) {
    case VKS_RASTER_OK:
        return "success";
    case VKS_RASTER_BAD_IMAGE:
        return "an image is NULL, empty, larger than 32768 pixels a side, or its rows do not fit its stride or size";
    case VKS_RASTER_BAD_FORMAT:
        return "an image's format is not one of enum vks_format, or has integers or depth where colours are needed";
    case VKS_RASTER_BAD_ARGUMENT:
        return "a filter, opacity, coordinate, vertex layout or sub-pixel precision is out of range, or NULL";
    case VKS_RASTER_FORMAT_MISMATCH:
        return "copy needs equal formats; blit converts";
    case VKS_RASTER_OVERLAP:
        return "source and target share memory";
    case VKS_RASTER_NO_MEMORY:
        return "out of memory";
    case VKS_RASTER_BAD_SLOT:
        return "an image slot was not declared by this program";
    case VKS_RASTER_IMAGE_MISMATCH:
        return "an image differs in size or format from its slot's declaration";
    default:
        return "unknown status";
    }
}

static int check_planes(const struct vks_image *image)
{
    bool is_whole = vks_planes_fit(image->format, image->width, image->height) && image->stride % 4 == 0;
    uint32_t planes = vks_format_planes(image->format);
    return is_whole && image->stride <= SIZE_MAX / 4 / image->height &&
                   image->size >= vks_planes_bytes(image->format, planes, image->height, image->stride)
               ? VKS_RASTER_OK
               : VKS_RASTER_BAD_IMAGE;
}

int vks_image_check(const struct vks_image *image)
{
    if (image == NULL || image->pixels == NULL)
        return VKS_RASTER_BAD_IMAGE;
    size_t bytes = vks_format_bytes(vks_plane_format(image->format, 0));
    if (bytes == 0)
        return VKS_RASTER_BAD_FORMAT;
    if (image->width == 0 || image->width > VKS_RASTER_MAX_EXTENT || image->height == 0 ||
        image->height > VKS_RASTER_MAX_EXTENT)
        return VKS_RASTER_BAD_IMAGE;
    size_t row = image->width * bytes;
    if (image->stride < row || image->size < row)
        return VKS_RASTER_BAD_IMAGE;
    if (vks_planar_format(image->format) != NULL)
        return check_planes(image);
    if (image->height > 1 && (image->size - row) / (image->height - 1) < image->stride)
        return VKS_RASTER_BAD_IMAGE;
    return VKS_RASTER_OK;
}

static bool clip_axis(int64_t start, int64_t length, int64_t limit, uint32_t *first, uint32_t *count)
{
    int64_t end = start + length;
    start = start > 0 ? start : 0;
    end = end < limit ? end : limit;
    if (length <= 0 || end <= start)
        return false;
    *first = (uint32_t)start;
    *count = (uint32_t)(end - start);
    return true;
}

bool vks_clip_area(const struct vks_image *image, int32_t x, int32_t y, int32_t width, int32_t height,
                   struct vks_area *out)
{
    return clip_axis(x, width, image->width, &out->x, &out->width) &&
           clip_axis(y, height, image->height, &out->y, &out->height);
}

static uintptr_t end_of(const struct vks_image *image)
{
    if (image->format == VKS_FORMAT_NONE)
        return (uintptr_t)image->pixels + image->size;
    if (vks_planar_format(image->format) != NULL)
        return (uintptr_t)image->pixels +
               (size_t)vks_planes_bytes(image->format, vks_format_planes(image->format), image->height, image->stride);
    size_t row = image->width * vks_format_bytes(image->format);
    return (uintptr_t)image->pixels + image->stride * (image->height - 1) + row;
}

bool vks_images_overlap(const struct vks_image *a, const struct vks_image *b)
{
    return (uintptr_t)a->pixels < end_of(b) && (uintptr_t)b->pixels < end_of(a);
}

struct row_job {
    void (*work)(void *context, uint32_t first, uint32_t end);
    void *context;
    uint32_t rows, bands;
};

static void run_band(void *context, uint32_t index)
{
    const struct row_job *job = context;
    uint32_t first = (uint32_t)((uint64_t)job->rows * index / job->bands);
    uint32_t end = (uint32_t)((uint64_t)job->rows * (index + 1) / job->bands);
    job->work(job->context, first, end);
}

void vks_run_rows(struct vks_pool *pool, uint32_t rows, size_t bytes, void (*work)(void *, uint32_t, uint32_t),
                  void *context)
{
    size_t bands = bytes / (WORTH_A_THREAD / BANDS_PER_THREAD);
    size_t most = (size_t)vks_pool_threads(pool) * BANDS_PER_THREAD;
    bands = bands < most ? bands : most;
    bands = bands < rows ? bands : rows;
    if (bytes < WORTH_A_THREAD || vks_pool_threads(pool) == 1 || bands < 2) {
        work(context, 0, rows);
        return;
    }
    struct row_job job = {work, context, rows, (uint32_t)bands};
    vks_pool_run(pool, job.bands, run_band, &job);
}
