// The factors of Y'CbCr in planes: the last member of push constants, for planes_texel.glsl.

struct Planes {
    vec4 blue;   // of a code of Cb, for R, G and B; w: of one of luma
    vec4 red;    // of Cr; w: 1 where chroma lies in the first column
    vec4 bias;   // w: 1 where it lies in the first row
    ivec4 shape; // log2 of the columns and the rows of luma for one of chroma; 1: Cb and Cr are pairs; bits
};
