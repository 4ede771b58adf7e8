"""A swapchain's counters."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SwapchainStatistics:
    """A snapshot of a swapchain's counters."""

    frames: int  # presented
    lost_frames: int  # of these, not shown: the window had changed in between
    swapchains: int  # VkSwapchainKHRs alive: the current one, and those that were replaced and may still be shown
    retired: int  # of these, the replaced ones
    retired_limit: int  # how many of those there may be
    most_alive: int  # the most VkSwapchainKHRs that were ever alive
    recreated: int  # times that one was made in place of another
    resize_waits: int  # of these, how many had to wait for proof that an older one is over
    given_up: int  # VkSwapchainKHRs that were destroyed without proof: the window gave no more images to prove by
    semaphores: int  # binary VkSemaphores that exist
    pooled_semaphores: int  # of these, free
    fences: int  # VkFences that exist
    pooled_fences: int  # of these, free
    history: int  # presents that are not known to be over
    quarantined: int  # of these, those whose fence was not signalled in time
    moved: int  # presents of starved images that went to the back of the history
    acquire_waits: int  # frames that waited for the GPU work of earlier ones
    acquired: int  # frames that are out now
    image_count: int
    by_fences: bool  # VK_EXT_swapchain_maintenance1 proves presents; else acquires do
