// vkshare.hpp: move-only guards over vkshare.h and vkshare_present.h, and over vkshare_vulkan.h where Vulkan headers
// are found. C++17.
//
// A guard owns one object and ends it in its destructor. It converts to the C pointer, so that every function of the
// C headers takes it. These headers are the manual; this one adds no behaviour of its own.
//
// Errors: a function of this header that fails throws vks::error. With VKSHARE_NO_EXCEPTIONS, or -fno-exceptions, it
// returns an empty guard or the status instead, and vks_last_error() has the reason. Calls that a signal interrupts
// are repeated.
#ifndef VKSHARE_HPP
#define VKSHARE_HPP

#if !defined(VKSHARE_NO_EXCEPTIONS) && !defined(__cpp_exceptions)
#define VKSHARE_NO_EXCEPTIONS
#endif

#include <chrono>
#include <string>
#include <utility>

#include "vkshare.h"
#include "vkshare_present.h"
#if __has_include(<vulkan/vulkan_core.h>)
#include "vkshare_vulkan.h"
#endif
#ifndef VKSHARE_NO_EXCEPTIONS
#include <stdexcept>
#endif

namespace vks
{

// ---- errors and deadlines -------------------------------------------------------------------------------------------

#ifndef VKSHARE_NO_EXCEPTIONS
// The status of a call that failed. what() is the text of vks_last_error(), or the number where there is none.
class error : public std::runtime_error
{
  public:
    explicit error(vks_status status, const std::string &text) : std::runtime_error(text), status_(status) {}
    vks_status status() const noexcept { return status_; }

  private:
    vks_status status_;
};
#endif

// Passes VKS_OK on. Another status: throws vks::error, or is passed on where exceptions are off.
inline vks_status require(vks_status status)
{
#ifndef VKSHARE_NO_EXCEPTIONS
    if (status != VKS_OK) {
        const vks_error *last = vks_last_error();
        bool has_text = last->status == status && *last->text;
        throw error(status, has_text ? last->text : "vkshare: status " + std::to_string(status));
    }
#endif
    return status;
}

// Calls `call`, which returns a vks_status, until no signal interrupts it; then as require().
template <class Call> vks_status patiently(Call &&call)
{
    vks_status status;
    vks_clear_error();
    while ((status = call()) == VKS_INTERRUPTED)
        ;
    return require(status);
}

// A deadline that long after now.
inline uint64_t after(std::chrono::nanoseconds duration) { return vks_now() + static_cast<uint64_t>(duration.count()); }

// ---- guards ---------------------------------------------------------------------------------------------------------

// Owns a reference to a T, or nothing. `End` closes and drops it.
template <class T, void (*End)(T *)> class guard
{
  public:
    guard() noexcept = default;
    explicit guard(T *object) noexcept : object_(object) {}
    guard(guard &&other) noexcept : object_(other.release()) {}
    guard &operator=(guard &&other) noexcept
    {
        reset(other.release());
        return *this;
    }
    guard(const guard &) = delete;
    guard &operator=(const guard &) = delete;
    ~guard() { reset(); }

    T *get() const noexcept { return object_; }
    operator T *() const noexcept { return object_; }
    T *release() noexcept { return std::exchange(object_, nullptr); } // the caller owns it from now on
    void reset(T *object = nullptr) noexcept
    {
        if (T *old = std::exchange(object_, object))
            End(old);
    }

  private:
    T *object_ = nullptr;
};

namespace detail
{
inline void end(vks_device *device)
{
    vks_device_shutdown(device);
    vks_device_reap(device, true);
    vks_device_unref(device);
}
inline void end(vks_surface *surface)
{
    vks_surface_close(surface);
    vks_surface_unref(surface);
}
inline void end(vks_fence *fence)
{
    vks_fence_close(fence);
    vks_fence_unref(fence);
}
inline void end(vks_queue *queue)
{
    vks_queue_close(queue);
    vks_queue_unref(queue);
}
inline void end(vks_mirror *mirror)
{
    vks_mirror_close(mirror);
    vks_mirror_unref(mirror);
}
inline void end(vks_event_queue *event_queue)
{
    vks_event_queue_close(event_queue);
    vks_event_queue_unref(event_queue);
}
inline void end(vks_swapchain *swapchain)
{
    vks_swapchain_close(swapchain);
    vks_swapchain_unref(swapchain);
}
inline void end(vks_display *display)
{
    vks_display_shutdown(display);
    vks_display_unref(display);
}
inline void end(vks_dispatcher *dispatcher)
{
    vks_dispatcher_close(dispatcher);
    vks_dispatcher_unref(dispatcher);
}
inline void end(vks_observer *observer) { vks_observer_destroy(observer); }
inline void end(vks_commands *commands) { vks_commands_unref(commands); }
inline void end(vks_work *work) { vks_work_unref(work); }

// Owns the fds of a descriptor.
template <class T, void (*Close)(T *)> class descriptor
{
  public:
    descriptor() noexcept : descriptor(T{}) {}
    explicit descriptor(const T &value) noexcept : value_(value) {}
    descriptor(descriptor &&other) noexcept : value_(other.value_), is_open_(std::exchange(other.is_open_, false)) {}
    descriptor &operator=(descriptor &&other) noexcept
    {
        std::swap(value_, other.value_);
        std::swap(is_open_, other.is_open_);
        return *this;
    }
    descriptor(const descriptor &) = delete;
    descriptor &operator=(const descriptor &) = delete;
    ~descriptor()
    {
        if (is_open_)
            Close(&value_);
    }

    // Runs `fill(T *)`, after which the guard owns what it wrote if it returned VKS_OK.
    template <class Fill> static descriptor of(Fill &&fill)
    {
        descriptor made;
        made.is_open_ = patiently([&] { return fill(&made.value_); }) == VKS_OK;
        return made;
    }
    explicit operator bool() const noexcept { return is_open_; }
    const T *get() const noexcept { return &value_; }
    const T *operator->() const noexcept { return &value_; }

  private:
    T value_;
    bool is_open_ = false;
};

// Runs `make(T **)` and guards what it made.
template <class Guard, class T, class Make> Guard made(Make &&make)
{
    T *object = nullptr;
    return patiently([&] { return make(&object); }) == VKS_OK ? Guard(object) : Guard();
}
} // namespace detail

using device = guard<vks_device, detail::end>; // its end shuts the device down
using surface = guard<vks_surface, detail::end>;
using fence = guard<vks_fence, detail::end>;
using queue = guard<vks_queue, detail::end>;
using mirror = guard<vks_mirror, detail::end>;
using event_queue = guard<vks_event_queue, detail::end>;
using swapchain = guard<vks_swapchain, detail::end>;
using display = guard<vks_display, detail::end>;
using dispatcher = guard<vks_dispatcher, detail::end>;
using observer = guard<vks_observer, detail::end>;
using commands = guard<vks_commands, detail::end>;
using work = guard<vks_work, detail::end>;
using surface_descriptor = detail::descriptor<vks_surface_descriptor, vks_surface_descriptor_close>;
using fence_descriptor = detail::descriptor<vks_fence_descriptor, vks_fence_descriptor_close>;
using queue_descriptor = detail::descriptor<vks_queue_descriptor, vks_queue_descriptor_close>;

// ---- objects --------------------------------------------------------------------------------------------------------

inline device create_device(const vks_device_info &info)
{
    return detail::made<device, vks_device>([&](vks_device **out) { return vks_device_create(&info, out); });
}
inline surface create_image(vks_device *on, const vks_image_info &info)
{
    return detail::made<surface, vks_surface>(
        [&](vks_surface **out) { return vks_surface_create_image(on, &info, out); });
}
inline surface open_image(vks_device *on, const surface_descriptor &from)
{
    return detail::made<surface, vks_surface>(
        [&](vks_surface **out) { return vks_surface_open_image(on, from.get(), out); });
}
inline vks_color color(const vks_surface *of)
{
    vks_color color{};
    require(vks_surface_get_color(of, &color));
    return color;
}
inline vks_plane plane(vks_surface *of, uint32_t number)
{
    vks_plane plane{};
    require(vks_surface_get_plane(of, number, &plane));
    return plane;
}
inline fence create_fence(vks_device *on, uint64_t initial = 0)
{
    return detail::made<fence, vks_fence>([&](vks_fence **out) { return vks_fence_create(on, initial, out); });
}
inline fence open_fence(vks_device *on, const fence_descriptor &from)
{
    return detail::made<fence, vks_fence>(
        [&](vks_fence **out) { return vks_fence_open_descriptor(on, from.get(), out); });
}
inline mirror create_mirror(vks_device *on, const vks_surface_descriptor &of)
{
    return detail::made<mirror, vks_mirror>([&](vks_mirror **out) { return vks_device_mirror(on, &of, out); });
}
inline event_queue create_event_queue() { return detail::made<event_queue, vks_event_queue>(vks_event_queue_create); }
inline queue open_queue(vks_device *on, int page_fd, vks_end end, vks_surface *const *surfaces, uint32_t count)
{
    return detail::made<queue, vks_queue>(
        [&](vks_queue **out) { return vks_queue_open(on, page_fd, end, surfaces, count, out); });
}
inline swapchain open_swapchain(vks_device *on, const vks_window_info &info)
{
    return detail::made<swapchain, vks_swapchain>(
        [&](vks_swapchain **out) { return vks_swapchain_open(on, &info, out); });
}
inline display create_display(vks_interval interval, bool is_estimated = false)
{
    return detail::made<display, vks_display>(
        [&](vks_display **out) { return vks_display_create(interval, is_estimated, out); });
}
inline dispatcher create_dispatcher(vks_display *of)
{
    return detail::made<dispatcher, vks_dispatcher>(
        [&](vks_dispatcher **out) { return vks_dispatcher_create(of, out); });
}
inline observer create_observer(vks_dispatcher *of)
{
    return detail::made<observer, vks_observer>(
        [&](vks_observer **out) { return vks_observer_create(of, nullptr, out); });
}

// ---- descriptors ----------------------------------------------------------------------------------------------------

inline surface_descriptor export_descriptor(vks_surface *of)
{
    return surface_descriptor::of([&](auto *out) { return vks_surface_export_descriptor(of, out); });
}
inline fence_descriptor export_descriptor(vks_fence *of)
{
    return fence_descriptor::of([&](auto *out) { return vks_fence_export_descriptor(of, out); });
}
inline surface_descriptor receive_surface(int sock, uint64_t deadline = VKS_FOREVER)
{
    return surface_descriptor::of([&](auto *out) { return vks_surface_descriptor_recv(sock, deadline, out); });
}
inline fence_descriptor receive_fence(int sock, uint64_t deadline = VKS_FOREVER)
{
    return fence_descriptor::of([&](auto *out) { return vks_fence_descriptor_recv(sock, deadline, out); });
}
inline queue_descriptor receive_queue(int sock, uint64_t deadline = VKS_FOREVER)
{
    return queue_descriptor::of([&](auto *out) { return vks_queue_descriptor_recv(sock, deadline, out); });
}
inline vks_status send(int sock, const surface_descriptor &what, uint64_t deadline = VKS_FOREVER)
{
    return patiently([&] { return vks_surface_descriptor_send(sock, deadline, what.get()); });
}
inline vks_status send(int sock, const fence_descriptor &what, uint64_t deadline = VKS_FOREVER)
{
    return patiently([&] { return vks_fence_descriptor_send(sock, deadline, what.get()); });
}
inline vks_status send(int sock, const queue_descriptor &what, uint64_t deadline = VKS_FOREVER)
{
    return patiently([&] { return vks_queue_descriptor_send(sock, deadline, what.get()); });
}

// ---- turns ----------------------------------------------------------------------------------------------------------

// An ownership of a surface, from its acquire to its release. The destructor releases under the second key, also when
// an exception passes; its errors are lost, and release() reports them.
class ownership
{
  public:
    ownership(vks_surface *of, uint64_t acquire_key, uint64_t release_key, uint64_t deadline = VKS_FOREVER)
        : surface_(of), key_(release_key)
    {
        status_ = patiently([&] { return vks_surface_acquire(of, acquire_key, deadline); });
    }
    ownership(ownership &&other) noexcept
        : surface_(other.surface_), key_(other.key_), status_(std::exchange(other.status_, VKS_NOT_OWNER))
    {
    }
    ownership(const ownership &) = delete;
    ownership &operator=(const ownership &) = delete;
    ownership &operator=(ownership &&) = delete;
    ~ownership()
    {
        if (status_ == VKS_OK)
            vks_surface_release(surface_, key_);
    }

    vks_status status() const noexcept { return status_; } // of the acquire
    explicit operator bool() const noexcept { return status_ == VKS_OK; }
    vks_status release()
    {
        if (status_ != VKS_OK)
            return require(VKS_NOT_OWNER);
        status_ = VKS_NOT_OWNER;
        return require(vks_surface_release(surface_, key_));
    }

  private:
    vks_surface *surface_;
    uint64_t key_;
    vks_status status_ = VKS_NOT_OWNER;
};

#ifdef VKSHARE_VULKAN_H
inline device open_vulkan(const vks_open_info &info)
{
    return detail::made<device, vks_device>([&](vks_device **out) { return vks_device_open_vulkan(&info, out); });
}
inline device adopt_vulkan(const vks_adopt_info &info)
{
    return detail::made<device, vks_device>([&](vks_device **out) { return vks_device_adopt_vulkan(&info, out); });
}
inline vks_vulkan_image vulkan_image(vks_surface *of)
{
    vks_vulkan_image image{};
    require(vks_surface_get_vulkan(of, &image));
    return image;
}
inline vks_vulkan_image vulkan_image(vks_surface *of, uint32_t plane)
{
    vks_vulkan_image image{};
    require(vks_surface_get_vulkan_plane(of, plane, &image));
    return image;
}

// The semaphores of an engine's submission in its turn.
struct submit_info {
    VkSemaphoreSubmitInfo wait{}, signal{};
};
inline submit_info sync(vks_surface *with, uint64_t deadline = VKS_FOREVER)
{
    submit_info info;
    patiently([&] { return vks_surface_submit_info(with, deadline, &info.wait, &info.signal); });
    return info;
}
#endif

} // namespace vks

#endif
