/* nodes.c: what objects of the engine refer to: a hash table of nodes for each device. */
#include <stdlib.h>

#include "layer/layer.h"

enum { BUCKETS = sizeof((layer_device *)NULL)->nodes / sizeof(layer_node *) };

static size_t bucket(layer_kind kind, uint64_t key) { return ((key >> 3) + kind) * UINT64_C(0x9e3779b97f4a7c15) >> 54; }
_Static_assert(BUCKETS == 1024, "bucket() gives ten bits");

static void count(layer_device *device, layer_kind kind, unsigned change)
{
    if (kind == LAYER_SET)
        atomic_fetch_add(&device->n_sets, change);
    if (kind == LAYER_LATE)
        atomic_fetch_add(&device->n_late, change);
}

static layer_node *add(layer_device *device, layer_kind kind, uint64_t key, uint64_t sub)
{
    layer_node *node = calloc(1, sizeof *node), **head = &device->nodes[bucket(kind, key)];
    if (!node)
        return NULL;
    *node = (layer_node){.next = *head, .key = key, .sub = sub, .kind = kind};
    *head = node;
    count(device, kind, 1);
    return node;
}

bool layer_add(layer_device *device, layer_kind kind, uint64_t key, uint64_t sub, layer_image *image)
{
    for (layer_node *each = NULL; (each = layer_find(device, kind, key, each));)
        if (each->sub == sub && each->image == image)
            return true;
    layer_node *node = add(device, kind, key, sub);
    if (node)
        node->image = image;
    return node != NULL;
}

layer_node *layer_add_pass(layer_device *device, uint64_t key, uint64_t sub)
{
    return add(device, LAYER_RENDER_PASS, key, sub);
}

bool layer_add_template(layer_device *device, uint64_t key, layer_template *template)
{
    layer_node *node = add(device, LAYER_TEMPLATE, key, 0);
    if (node)
        node->template = template;
    else
        free(template);
    return node != NULL;
}

layer_node *layer_find(const layer_device *device, layer_kind kind, uint64_t key, const layer_node *after)
{
    layer_node *node = after ? after->next : device->nodes[bucket(kind, key)];
    while (node && (node->kind != kind || node->key != key))
        node = node->next;
    return node;
}

bool layer_refers(const layer_device *device, layer_kind kind, uint64_t key, const layer_image *image)
{
    const layer_node *each = NULL;
    while ((each = layer_find(device, kind, key, each)) && each->image != image) {
    }
    return each;
}

typedef struct selection {
    bool everything, any_key, any_sub;
    layer_kind kind;
    uint64_t key, sub;
    const layer_image *image; /* not NULL: the nodes that refer to it */
} selection;

static bool is_selected(const layer_node *node, const selection *s)
{
    if (s->everything || s->image)
        return s->everything || node->image == s->image;
    return node->kind == s->kind && (s->any_key || node->key == s->key) && (s->any_sub || node->sub == s->sub);
}

static void forget(layer_device *device, layer_node **link, const selection *s)
{
    while (*link) {
        layer_node *node = *link;
        if (!is_selected(node, s)) {
            link = &node->next;
            continue;
        }
        *link = node->next;
        count(device, node->kind, (unsigned)-1);
        free(node->template);
        free(node);
    }
}

void layer_forget(layer_device *device, layer_kind kind, uint64_t key)
{
    forget(device, &device->nodes[bucket(kind, key)], &(selection){.kind = kind, .key = key, .any_sub = true});
}

void layer_forget_one(layer_device *device, layer_kind kind, uint64_t key, uint64_t sub)
{
    forget(device, &device->nodes[bucket(kind, key)], &(selection){.kind = kind, .key = key, .sub = sub});
}

static void forget_everywhere(layer_device *device, const selection *s)
{
    for (size_t i = 0; i < BUCKETS; i++)
        forget(device, &device->nodes[i], s);
}

void layer_forget_sub(layer_device *device, layer_kind kind, uint64_t sub)
{
    forget_everywhere(device, &(selection){.kind = kind, .any_key = true, .sub = sub});
}

void layer_forget_kind(layer_device *device, layer_kind kind)
{
    forget_everywhere(device, &(selection){.kind = kind, .any_key = true, .any_sub = true});
}

void layer_forget_image(layer_device *device, const layer_image *image)
{
    forget_everywhere(device, &(selection){.everything = !image, .image = image});
}
