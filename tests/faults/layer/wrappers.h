/* wrappers.h: layer_X stands before vkX. */
#ifndef VKS_FAULTS_WRAPPERS_H
#define VKS_FAULTS_WRAPPERS_H

#include "proofs.h"

/* Declares a function of the very type that Vulkan gives it, so that a wrapper with another one does not compile. */
#define X(name, alias, lose) extern __typeof__(*(PFN_vk##name)0) layer_##name;
INSTANCE_ENTRIES(X)
DEVICE_ENTRIES(X)
#undef X
extern __typeof__(*(PFN_vkCreateInstance)0) layer_CreateInstance;

/* A structure of a pNext chain, or NULL. */
static inline const void *vks_chained(const void *chain, VkStructureType type)
{
    const VkBaseInStructure *in = chain;
    while (in != NULL && in->sType != type)
        in = in->pNext;
    return in;
}

#endif
