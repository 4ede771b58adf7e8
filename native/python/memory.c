/* memfd_create, memfd_check, memory_check, memory_replace, memory_reserve: shared memory as the backends need it. */
#include "vkpy.h"

#include "shm/memory.h"

#define CHUNK ((size_t)64 << 20) /* bytes reserved between two checks for signals */

PyObject *vkpy_memfd_create(PyObject *module, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords)
{
    static vkpy_signature signature = {"memfd_create", 2, 2, 2, {"name", "size"}, {NULL}};
    PyObject *values[2];
    long long size;
    int fd;
    (void)module;
    if (!vkpy_bind(&signature, arguments, count, keywords, values) ||
        !vkpy_integer(values[1], "size", 1, INT64_MAX, &size))
        return NULL;
    const char *name = PyUnicode_AsUTF8AndSize(values[0], NULL);
    if (name == NULL)
        return NULL;
    vks_status status = vks_memfd_create(name, (uint64_t)size, false, &fd, NULL);
    return status != VKS_OK ? vkpy_raise(status, "shared memory") : PyLong_FromLong(fd);
}

PyObject *vkpy_memfd_check(PyObject *module, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords)
{
    static vkpy_signature signature = {"memfd_check", 4, 4, 4, {"fd", "what", "writable", "size"}, {NULL}};
    PyObject *values[4];
    bool writable = false;
    uint64_t size;
    int fd;
    (void)module;
    if (!vkpy_bind(&signature, arguments, count, keywords, values) || !vkpy_fd(values[0], "fd", true, &fd) ||
        !vkpy_bool(values[2], &writable) || !vkpy_u64(values[3], "size", &size))
        return NULL;
    const char *what = PyUnicode_AsUTF8AndSize(values[1], NULL);
    if (what == NULL)
        return NULL;
    return vkpy_none_or_raise(vks_memfd_check(fd, what, writable ? VKS_MEMFD_WRITE : VKS_MEMFD_READ, size),
                              "descriptor");
}

PyObject *vkpy_memory_check(PyObject *module, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords)
{
    static vkpy_signature signature = {"memory_check", 3, 3, 3, {"fd", "is_memfd", "size"}, {NULL}};
    PyObject *values[3];
    bool is_memfd = false;
    uint64_t size;
    int fd;
    (void)module;
    if (!vkpy_bind(&signature, arguments, count, keywords, values) || !vkpy_fd(values[0], "fd", true, &fd) ||
        !vkpy_bool(values[1], &is_memfd) || !vkpy_u64(values[2], "size", &size))
        return NULL;
    return vkpy_none_or_raise(vks_memory_check(fd, is_memfd, size), "descriptor");
}

PyObject *vkpy_memory_replace(PyObject *module, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords)
{
    static vkpy_signature signature = {"memory_replace", 4, 4, 4, {"own", "fd", "address", "offset"}, {NULL}};
    PyObject *values[4];
    uint64_t address, offset;
    int own, fd;
    vks_status status;
    (void)module;
    if (!vkpy_bind(&signature, arguments, count, keywords, values) || !vkpy_fd(values[0], "own", false, &own) ||
        !vkpy_fd(values[1], "fd", false, &fd) || !vkpy_u64(values[2], "address", &address) ||
        !vkpy_u64(values[3], "offset", &offset))
        return NULL;
    Py_BEGIN_ALLOW_THREADS; /* a read of /proc/self/maps takes a lock on this process's memory map */
    status = vks_memory_replace(own, fd, (const void *)(uintptr_t)address, &offset);
    Py_END_ALLOW_THREADS;
    return status != VKS_OK ? vkpy_raise(status, "image memory") : PyLong_FromUnsignedLongLong(offset);
}

PyObject *vkpy_memory_reserve(PyObject *module, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords)
{
    static vkpy_signature signature = {"memory_reserve", 2, 2, 2, {"mapping", "fd"}, {NULL}};
    PyObject *values[2];
    Py_buffer buffer;
    vks_status status = VKS_OK;
    bool interrupted = false;
    int fd;
    (void)module;
    if (!vkpy_bind(&signature, arguments, count, keywords, values) || !vkpy_fd(values[1], "fd", false, &fd) ||
        PyObject_GetBuffer(values[0], &buffer, PyBUF_WRITABLE) < 0)
        return NULL;
    size_t size = (size_t)buffer.len;
    for (size_t at = 0; !status && !interrupted && at < size; at += CHUNK) {
        Py_BEGIN_ALLOW_THREADS;
        status = vks_memory_reserve(fd, (char *)buffer.buf + at, size - at < CHUNK ? size - at : CHUNK, at);
        Py_END_ALLOW_THREADS;
        interrupted = PyErr_CheckSignals() < 0;
    }
    PyBuffer_Release(&buffer);
    return interrupted ? NULL : vkpy_none_or_raise(status, "shared memory");
}
