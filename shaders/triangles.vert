// Vertices of draw_triangles: clip space, premultiplied colour, texture coordinates.
#version 450

layout(location = 0) in vec4 position;
layout(location = 1) in vec4 colour;
layout(location = 2) in vec2 uv;

layout(location = 0) out vec4 out_colour;
layout(location = 1) out vec2 out_uv;

void main()
{
    gl_Position = position;
    out_colour = colour;
    out_uv = uv;
}
