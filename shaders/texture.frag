// Triangles with a texture, modulated by the vertex colour.
#version 450

layout(set = 0, binding = 0) uniform sampler2D image;

layout(location = 0) in vec4 vertex_colour;
layout(location = 1) in vec2 uv;

layout(location = 0) out vec4 colour;

void main()
{
    colour = texture(image, uv) * vertex_colour;
}
