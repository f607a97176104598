// How each operator of onnx_bridge/operators/op_axes.inc is called in its test, one line a form.
//   NAME attribute=value ... : input ... [-> outputs] [@opset]
// Inputs: float[2,3] (any dtype) drawn, scale[2,3] floats above 0, roi[2,5] boxes; int64[2,3]<5 from 0 to 4, >5 from 1 to 5, =5 all 5, ~1
// the index along axis 1; constants that the table may read: c(1,-2) int64, s(2) of rank 0, f(1,0.5) floats; q(0.1) a float, z(3) a uint8
// of rank 0, k(1,2) int32; - none. Sizes differ, so that axes are not taken for each other.
#pragma once

namespace saturate::axes_test {

inline constexpr const char* kCases = R"(
Clip : float[3,4,5] q(-1) q(1)
CastLike : float[3,4,5] uint8[2]
Dropout : float[3,4,5] -> 2
PRelu : float[3,4,5] float[4,1]
Cast to=7 : float[3,4,5]
SwiGLU : float[3,4,5] float[3,4,5]
BitShift direction=LEFT : uint8[3,4,5] uint8[4,1]
RegexFullMatch pattern=a.* : string[3,4,5]
StringConcat : string[3,4,5] string[4,1]
Where : bool[3,4,5] float[4,1] float[3,1,5]
BitCast to=6 : float[3,4,5]
com.microsoft.BiasGelu : float[3,4,5] float[5]
com.microsoft.FastGelu : float[3,4,5] float[5]
com.microsoft.FastGelu : float[3,4,5]
com.microsoft.BiasSplitGelu : float[3,4,10] float[10]
com.microsoft.BiasAdd : float[3,4,5] float[5] float[3,4,5]
MatMul : float[3,4,5,7] float[4,7,6]
MatMul : float[3,1,5,7] float[4,7,6]
MatMul : float[7] float[3,4,7,5]
MatMul : float[3,4,7] float[7]
MatMul : float[7] float[7]
MatMulInteger : uint8[3,4,7] uint8[3,7,5] z(3) z(4)
MatMulInteger : uint8[4,7] uint8[7,5] uint8[4] uint8[5]
QLinearMatMul : uint8[3,4,7] q(0.05) z(3) uint8[3,7,5] q(0.05) z(4) q(10) z(9)
QLinearMatMul : uint8[4,7] q(0.05) z(3) uint8[7,5] scale[5] uint8[5] q(10) z(9)
Gemm : float[4,7] float[7,5] float[5]
Gemm transB=1 : float[4,7] float[5,7] float[4,1]
Gemm transA=1 : float[7,4] float[7,5] float[4,5]
Gemm transA=1 transB=1 : float[7,4] float[5,7]
Einsum equation=bij,bjk->bik : float[3,4,7] float[3,7,5]
Einsum equation=...ij,jk->...ki : float[3,4,7] float[7,5]
Einsum equation=ii->i : float[4,4]
com.microsoft.FusedGemm activation=Relu : float[4,7] float[7,5] float[5]
com.microsoft.FusedGemm activation=Relu transB=1 : float[4,7] float[5,7] float[5]
com.microsoft.FusedGemm activation=Relu transA=1 : float[7,4] float[7,5] float[5]
com.microsoft.FusedGemm activation=Relu transA=1 transB=1 : float[7,4] float[5,7] float[5]
com.microsoft.QGemm : uint8[4,7] q(0.05) z(3) uint8[7,5] scale[5] uint8[5] int32[5] q(10) z(9)
com.microsoft.QGemm transB=1 : uint8[4,7] q(0.05) z(3) uint8[5,7] q(0.05) z(5) - q(10) z(9)
com.microsoft.QGemm transA=1 : uint8[7,4] q(0.05) z(3) uint8[7,5] q(0.05) z(5) - q(10) z(9)
com.microsoft.QGemm transA=1 transB=1 : uint8[7,4] q(0.05) z(3) uint8[5,7] q(0.05) z(5) - q(10) z(9)
com.microsoft.FusedMatMul : float[3,4,7] float[3,7,5]
com.microsoft.FusedMatMul transB=1 : float[3,4,7] float[3,5,7]
com.microsoft.FusedMatMul transA=1 : float[3,7,4] float[3,7,5]
com.microsoft.FusedMatMul transA=1 transB=1 : float[3,7,4] float[3,5,7]
com.microsoft.TransposeMatMul : float[3,4,7] float[3,7,5]
com.microsoft.TransposeMatMul transB=1 : float[3,4,7] float[3,5,7]
com.microsoft.TransposeMatMul transA=1 : float[3,7,4] float[3,7,5]
com.microsoft.TransposeMatMul transA=1 transB=1 : float[3,7,4] float[3,5,7]
com.microsoft.MatMulInteger16 : int16[4,7] int16[7,5]
com.microsoft.MatMulIntegerToFloat : uint8[3,4,7] uint8[3,7,5] q(0.1) scale[5] z(3) uint8[5] float[5]
com.microsoft.DynamicQuantizeMatMul : float[3,4,7] uint8[7,5] scale[5] uint8[5] float[5]
com.microsoft.MatMulNBits K=32 N=5 bits=4 block_size=16 : float[3,4,32] uint8[5,2,8] float[10]
com.microsoft.MatMulBnb4 K=32 N=5 block_size=16 quant_type=1 : float[3,4,32] uint8[80] float[10]
Softmax axis=1 : float[3,4,5] @11
LogSoftmax axis=1 : float[3,4,5] @11
Hardmax axis=1 : float[3,4,5] @11
Softmax : float[3,4,5]
Softmax axis=1 : float[3,4,5]
LogSoftmax axis=1 : float[3,4,5]
Hardmax axis=1 : float[3,4,5]
com.microsoft.QLinearSoftmax opset=13 axis=1 : uint8[3,4,5] q(0.05) z(3) q(0.01) z(0)
LpNormalization axis=1 : float[3,4,5]
LayerNormalization : float[3,4,5] float[5] float[5] -> 3
LayerNormalization axis=1 : float[3,4,5] float[4,5]
SimplifiedLayerNormalization : float[3,4,5] float[5]
RMSNormalization : float[3,4,5] float[5]
com.microsoft.SkipLayerNormalization : float[3,4,5] float[3,4,5] float[5] float[5] float[5]
com.microsoft.SkipLayerNormalization : float[3,4,5] float[3,4,5] float[5] -> 4
com.microsoft.SkipLayerNormalization : float[3,4,5] float[4,5] float[5]
com.microsoft.SkipSimplifiedLayerNormalization : float[3,4,5] float[3,4,5] float[5] float[5]
BatchNormalization : float[3,4,5,6] float[4] float[4] float[4] scale[4]
BatchNormalization training_mode=1 : float[3,4,5,6] float[4] float[4] float[4] scale[4] -> 3
InstanceNormalization : float[3,4,5,6] float[4] float[4]
GroupNormalization num_groups=2 : float[3,4,5,6] float[4] float[4]
com.microsoft.GroupNorm groups=2 activation=0 channels_last=1 : float[3,5,6,4] float[4] float[4]
com.microsoft.GroupNorm groups=2 activation=0 channels_last=0 : float[3,4,5,6] float[4] float[4]
com.microsoft.SkipGroupNorm groups=2 activation=0 channels_last=1 : float[3,5,6,4] float[4] float[4] float[3,5,6,4] float[4] -> 2
MeanVarianceNormalization : float[3,4,5,6]
MeanVarianceNormalization axes=1,2 : float[3,4,5,6]
LRN size=3 alpha=0.9 : float[3,4,5,6]
CumSum : float[3,4,5] s(1)
CumProd : float[3,4,5] s(-1)
TopK axis=1 : float[3,4,5] c(4) -> 2
ArgMax axis=1 : float[3,4,5]
ArgMax axis=1 keepdims=0 : float[3,4,5]
ArgMin axis=-1 : float[3,4,5]
ArgMin axis=1 keepdims=0 : float[3,4,5]
Trilu : float[3,4,5]
com.microsoft.Trilu : float[3,4,5]
Det : float[3,4,5,5]
NegativeLogLikelihoodLoss reduction=none : float[3,4,5] int64[3,5]<4 float[4]
NegativeLogLikelihoodLoss reduction=sum : float[3,4,5] int64[3,5]<4
SoftmaxCrossEntropyLoss reduction=none : float[3,4,5] int64[3,5]<4 float[4] -> 2
SoftmaxCrossEntropyLoss : float[3,4,5] int64[3,5]<4 -> 2
com.microsoft.QLinearReduceMean axes=1 keepdims=0 : uint8[3,4,5] q(0.05) z(3) q(0.02) z(4)
QuantizeLinear : float[3,4,5] q(0.05) z(30)
QuantizeLinear axis=1 : float[3,4,5] scale[4] uint8[4]
QuantizeLinear axis=1 block_size=2 : float[3,4,5] scale[3,2,5] uint8[3,2,5]
DequantizeLinear : uint8[3,4,5] q(0.05) z(30)
DequantizeLinear axis=1 : uint8[3,4,5] scale[4] uint8[4]
DequantizeLinear axis=1 block_size=2 : uint8[3,4,5] scale[3,2,5] uint8[3,2,5]
com.microsoft.QuantizeLinear : float[3,4,5] q(0.05) z(30)
com.microsoft.QuantizeLinear axis=1 : float[3,4,5] scale[4] uint8[4]
com.microsoft.DequantizeLinear : uint8[3,4,5] q(0.05) z(30)
com.microsoft.DequantizeLinear axis=1 : uint8[3,4,5] scale[4] uint8[4]
DynamicQuantizeLinear : float[3,4,5] -> 3
com.microsoft.QLinearAdd : uint8[3,4,5] q(0.05) z(3) uint8[4,1] q(0.05) z(3) q(0.1) z(4)
com.microsoft.QLinearMul : uint8[3,4,5] q(0.05) z(3) uint8[4,1] q(0.05) z(3) q(0.5) z(4)
com.microsoft.QLinearWhere : bool[3,4,5] uint8[3,4,5] q(0.05) z(3) uint8[4,1] q(0.05) z(3) q(0.05) z(4)
com.microsoft.QLinearLeakyRelu : uint8[3,4,5] q(0.05) z(3) q(0.05) z(4)
com.microsoft.QLinearSigmoid : uint8[3,4,5] q(0.05) z(3) q(0.01) z(4)
Reshape : float[3,4,10] c(3,4,2,5)
Reshape : float[3,4,2,5] c(0,0,-1)
Reshape : float[3,4,5] c(12,5)
Flatten axis=2 : float[3,4,5]
Flatten axis=1 : float[3,4,5]
Squeeze : float[3,1,5] c(1)
Squeeze : float[3,1,5]
Squeeze axes=1 : float[3,1,5] @11
Unsqueeze : float[3,4] c(1,-1)
Unsqueeze axes=0,2 : float[3,4] @11
Transpose perm=1,2,0 : float[3,4,5]
Transpose : float[3,4,5]
Expand : float[3,1,5] c(6,3,4,5)
Tile : float[3,4,5] c(1,2,1)
Tile : float[3,4,5] int64[3]=1
Slice : float[3,4,5] c(1) c(4) c(1)
Slice : float[3,4,5] c(0,1) c(2,3)
Slice : float[3,4,5] c(0,1) c(3,3)
Slice : float[3,4,5] c(9) c(-9) c(1) c(-1)
Slice starts=1 ends=3 axes=1 : float[3,4,5] @9
Split axis=1 num_outputs=2 : float[3,4,5] -> 2
Concat axis=1 : float[3,4,5] float[3,7,5]
com.microsoft.QLinearConcat axis=1 : q(0.05) z(3) uint8[3,4,5] q(0.05) z(3) uint8[3,7,5] q(0.02) z(7)
Gather axis=1 : float[3,4,5] int64[7,6]<4
GatherElements axis=1 : float[3,4,5] int64[3,7,5]<4
GatherElements axis=1 : float[3,4,7] int64[2,6,5]<4
GatherND : float[3,4,5] int64[7,6,2]<3
GatherND batch_dims=1 : float[3,4,5] int64[3,6,1]<3
com.microsoft.GatherND : float[3,4,5] int64[7,6,2]<3
com.microsoft.GatherBlockQuantized gather_axis=0 quantize_axis=2 block_size=16 bits=8 : uint8[3,4,32] int64[7,6]<3 float[3,4,2] uint8[3,4,2]
Scatter axis=1 : float[3,4,5] int64[3,2,5]~1 float[3,2,5] @10
ScatterElements axis=1 reduction=add : float[3,4,5] int64[3,6,5]<4 float[3,6,5]
ScatterElements axis=1 reduction=add : float[4,5,7] int64[3,6,2]<5 float[3,6,2]
ScatterND reduction=add : float[3,4,5] int64[7,6,1]<3 float[7,6,4,5]
TensorScatter : float[3,4,6,5] float[3,4,1,5] int64[3]<4
OneHot axis=1 : int64[3,4]<5 s(5) float[2]
Compress axis=1 : float[3,4,5] bool[4]
Compress : float[3,4,5] bool[7]
ReverseSequence : float[6,4,5] int64[4]>6
ReverseSequence time_axis=1 batch_axis=0 : float[4,6,5] int64[4]>6
Pad : float[3,4,5] c(0,1,0,0,2,0)
Pad : float[3,4,5] c(1,2) - c(1)
Pad pads=0,1,0,0,2,0 : float[3,4,5] @2
CenterCropPad axes=1 : float[3,4,5] c(6)
CenterCropPad : float[3,4,5] c(5,6,7)
Resize mode=linear : float[3,4,5,6] - f(1,1,2,1.5)
Resize mode=linear : float[3,4,5,6] - - c(3,4,10,6)
Upsample mode=nearest : float[3,4,5,6] f(1,1,2,2) @9
DepthToSpace blocksize=2 : float[3,16,5,6]
SpaceToDepth blocksize=2 : float[3,5,4,6]
Conv : float[3,4,7,8] float[5,4,2,3] float[5]
Conv group=2 : float[3,4,7,8] float[6,2,2,3] float[6]
com.microsoft.FusedConv activation=Relu : float[3,4,7,8] float[5,4,2,3] float[5] float[3,5,6,6]
com.microsoft.FusedConv activation=Relu group=2 : float[3,4,7,8] float[6,2,2,3] float[6]
com.microsoft.NhwcConv : float[3,7,8,4] float[5,2,3,4] float[5]
com.microsoft.NhwcConv group=2 : float[3,7,8,4] float[6,2,3,2] float[6]
ConvInteger : uint8[3,4,7,8] uint8[5,4,2,3] z(3) z(4)
ConvInteger group=2 : uint8[3,4,7,8] uint8[6,2,2,3] z(3)
QLinearConv : uint8[3,4,7,8] q(0.05) z(3) uint8[5,4,2,3] scale[5] uint8[5] q(10) z(9) int32[5]
QLinearConv group=2 : uint8[3,4,7,8] q(0.05) z(3) uint8[6,2,2,3] q(0.05) z(4) q(10) z(9)
com.microsoft.QLinearConv : uint8[3,4,7,8] q(0.05) z(3) uint8[5,4,2,3] scale[5] uint8[5] q(10) z(9) int32[5]
com.microsoft.QLinearConv group=2 : uint8[3,4,7,8] q(0.05) z(3) uint8[6,2,2,3] q(0.05) z(4) q(10) z(9)
ConvTranspose : float[3,4,7,8] float[4,5,2,3] float[5]
ConvTranspose group=2 : float[3,4,7,8] float[4,3,2,3] float[6]
DeformConv : float[3,4,7,8] float[5,4,2,3] float[3,12,6,6] float[5] float[3,6,6,6]
DeformConv group=2 : float[3,4,7,8] float[6,2,2,3] float[3,12,6,6] float[6]
CausalConvWithState : float[3,4,7] float[4,1,6] float[4] float[3,4,5] -> 2
com.microsoft.CausalConvWithState : float[3,4,7] float[4,1,6] float[4] float[3,4,5] -> 2
AveragePool kernel_shape=2,3 : float[3,4,7,8]
MaxPool kernel_shape=2,3 : float[3,4,7,8]
LpPool kernel_shape=2,3 : float[3,4,7,8]
GlobalAveragePool : float[3,4,7,8]
GlobalMaxPool : float[3,4,7,8]
GlobalLpPool : float[3,4,7,8]
com.microsoft.QLinearAveragePool kernel_shape=2,3 : uint8[3,4,7,8] q(0.05) z(3) q(0.05) z(3)
com.microsoft.QLinearAveragePool kernel_shape=2,3 channels_last=1 : uint8[3,7,8,4] q(0.05) z(3) q(0.05) z(3)
com.microsoft.QLinearGlobalAveragePool : uint8[3,4,7,8] q(0.05) z(3) q(0.02) z(3)
com.microsoft.QLinearGlobalAveragePool channels_last=1 : uint8[3,7,8,4] q(0.05) z(3) q(0.02) z(3)
GridSample : float[3,4,7,8] float[3,5,6,2]
com.microsoft.GridSample : float[3,4,7,8] float[3,5,6,2]
RoiAlign output_height=5 output_width=6 : float[2,4,7,8] scale[3,4] int64[3]<2
MaxRoiPool pooled_shape=5,6 : float[1,4,7,8] roi[3,5]
Col2Im : float[3,24,9] c(4,5) c(2,3)
DFT : float[3,4,5,2] - s(1)
DFT axis=2 : float[3,4,5,2] @17
STFT : float[3,16,1] s(4) - s(8)
Attention : float[3,4,5,8] float[3,4,7,8] float[3,4,7,6] float[5,7]
Attention : float[3,4,5,8] float[3,4,7,8] float[3,4,7,6] float[5,7] -> 4
Attention q_num_heads=2 kv_num_heads=2 : float[3,5,8] float[3,7,8] float[3,7,12] -> 4
Attention : float[3,4,5,8] float[3,4,7,8] float[3,4,7,6] float[3,1,5,7]
Attention is_causal=1 : float[3,4,5,8] float[3,4,7,8] float[3,4,7,6]
Attention : float[3,4,5,8] float[3,2,7,8] float[3,2,7,6]
Attention : float[3,4,5,8] float[3,4,7,8] float[3,4,7,6] - float[3,4,9,8] float[3,4,9,6] -> 3
Attention q_num_heads=2 kv_num_heads=2 : float[3,5,8] float[3,7,8] float[3,7,12] float[5,7]
Attention q_num_heads=2 kv_num_heads=2 is_causal=1 : float[3,5,8] float[3,7,8] float[3,7,12]
com.microsoft.MultiHeadAttention num_heads=2 : float[3,5,8] float[3,7,8] float[3,7,12] float[28]
com.microsoft.MultiHeadAttention num_heads=2 : float[3,5,8] float[3,7,8] float[3,7,12] - - float[3,1,5,7]
com.microsoft.Attention num_heads=2 : float[3,4,8] float[8,24] float[24]
com.microsoft.QAttention num_heads=2 : uint8[3,4,8] uint8[8,24] float[24] q(0.05) q(0.05) - z(3) z(4)
com.microsoft.GroupQueryAttention num_heads=2 kv_num_heads=1 : float[3,5,16] float[3,5,8] float[3,5,8] - - int32[3]=4 int32[]=5 -> 3
RotaryEmbedding : float[3,4,5,8] float[3,5,4] float[3,5,4]
RotaryEmbedding num_heads=2 : float[3,5,16] float[3,5,4] float[3,5,4]
RotaryEmbedding : float[3,4,5,8] float[9,4] float[9,4] int64[3,5]<9
RotaryEmbedding num_heads=2 : float[3,5,16] float[9,4] float[9,4] int64[3,5]<9
com.microsoft.RotaryEmbedding num_heads=2 : float[3,5,16] int64[3,5]<9 float[9,4] float[9,4]
com.microsoft.RotaryEmbedding num_heads=2 : float[3,5,16] int64[1]<3 float[9,4] float[9,4]
com.microsoft.RotaryEmbedding num_heads=4 : float[3,4,5,8] int64[3,5]<9 float[9,4] float[9,4]
com.microsoft.RotaryEmbedding num_heads=4 : float[3,4,5,8] int64[1]<3 float[9,4] float[9,4]
com.microsoft.PackedMultiHeadAttention num_heads=2 : float[5,8] float[5,8] float[5,8] - int32[2,3]=1 k(0,2,5)
com.microsoft.QEmbedLayerNormalization : int32[3,4]<9 int32[3,4]<2 uint8[9,5] uint8[7,5] uint8[2,5] uint8[5] uint8[5] int32[3,4]<2 q(0.05) q(0.05) q(0.05) q(0.05) q(0.05) z(3) z(4) z(5) z(6) z(7) -> 2
com.microsoft.DynamicQuantizeLSTM hidden_size=5 : float[6,4,3] uint8[1,3,20] uint8[1,5,20] float[1,40] - - - - scale[1] uint8[1] scale[1] uint8[1] -> 3
com.microsoft.EmbedLayerNormalization : int32[3,4]<9 int32[3,4]<2 float[9,5] float[7,5] float[2,5] float[5] float[5] int32[3,4]<2 -> 2
com.microsoft.EmbedLayerNormalization : int32[3,4]<9 int32[3,4]<2 float[9,5] float[7,5] float[2,5] float[5] float[5]
com.microsoft.EmbedLayerNormalization : int32[3,4]<9 int32[3,4]<2 float[9,5] float[7,5] float[2,5] float[5] float[5] - int32[3,4]<7
LSTM hidden_size=5 : float[6,4,3] float[1,20,3] float[1,20,5] float[1,40] -> 3
GRU hidden_size=5 : float[6,4,3] float[1,15,3] float[1,15,5] float[1,30] -> 2
RNN hidden_size=5 : float[6,4,3] float[1,5,3] float[1,5,5] float[1,10] - float[1,4,5] -> 2
LinearAttention q_num_heads=2 kv_num_heads=2 update_rule=linear : float[3,5,8] float[3,5,8] float[3,5,12] -> 2
com.microsoft.LinearAttention q_num_heads=2 kv_num_heads=2 update_rule=linear : float[3,5,8] float[3,5,8] float[3,5,12] -> 2
com.microsoft.MoE activation_type=swiglu swiglu_fusion=1 k=2 : float[3,4] float[3,5] float[5,12,4] float[5,12] float[5,4,6] float[5,4]
StringNormalizer case_change_action=UPPER is_case_sensitive=1 stopwords=b,a : string[7]
StringSplit : string[3,4] -> 2
TfIdfVectorizer max_gram_length=2 min_gram_length=2 max_skip_count=0 mode=TF ngram_counts=0,4 ngram_indexes=0,1,2,3,4,5,6 pool_int64s=2,3,5,4,1,0,2,1,1,2 : int64[3,7]<5
ai.onnx.ml.ArrayFeatureExtractor : float[3,4,5] int64[1,7]<5
ai.onnx.ml.Binarizer threshold=0.2 : float[3,5]
ai.onnx.ml.CategoryMapper cats_int64s=1,2,3 cats_strings=a,b,ab : string[3,5]
ai.onnx.ml.LabelEncoder keys_int64s=0,1,2 values_int64s=7,8,9 : int64[3,5]<4
ai.onnx.ml.FeatureVectorizer inputdimensions=4,5 : float[3,4] float[3,5]
ai.onnx.ml.Imputer imputed_value_int64s=1,2,3,4 replaced_value_int64=0 : int64[3,4]<2
ai.onnx.ml.Scaler offset=1,2,3,4 scale=1,3,5,7 : float[3,4]
ai.onnx.ml.Normalizer norm=L2 : float[3,4]
ai.onnx.ml.OneHotEncoder cats_int64s=0,1,2 zeros=1 : int64[4,5]<3
ai.onnx.ml.LinearRegressor coefficients=1,2,3,4,5,6,7,8 targets=2 : float[3,4]
ai.onnx.ml.LinearClassifier coefficients=1,2,3,-4,5,-6,7,8,9,-1,2,3,-2,4,5,-1,1,2,3,4 intercepts=1,2,3,4,5 classlabels_ints=1,2,3,4,5 : float[3,4] -> 2
Shape : float[3,4,5]
Size : float[3,4,5]
Constant value_ints=1,2,3 :
ConstantOfShape : int64[3]<4
EyeLike : float[4,5]
Range : s(1) s(9) s(2)
NonZero : bool[3,4,5]
Unique axis=1 : float[3,4,5] -> 4
com.microsoft.Unique : float[7] -> 3
NonMaxSuppression : scale[3,6,4] scale[3,5,6] s(3) q(0.05)
AffineGrid : float[3,2,3] c(3,1,4,5)
MaxUnpool kernel_shape=2 strides=2 : float[1,1,4] int64[1,1,4]<8
HannWindow : s(9)
HammingWindow : s(9)
BlackmanWindow : s(9)
MelWeightMatrix : s(8) s(16) s(8192) q(0) q(4000)
ai.onnx.ml.SVMRegressor kernel_type=LINEAR coefficients=1,2,3,4 rho=0.5 : float[3,4]
ai.onnx.ml.SVMClassifier kernel_type=LINEAR coefficients=1,-1 vectors_per_class=1,1 support_vectors=1,2,3,4,-5,6,7,8 rho=0.5 classlabels_ints=1,2 : float[3,4] -> 2
ai.onnx.ml.TreeEnsembleRegressor nodes_treeids=0,0,0 nodes_nodeids=0,1,2 nodes_featureids=1,0,0 nodes_modes=BRANCH_LEQ,LEAF,LEAF nodes_values=0,0,0 nodes_truenodeids=1,0,0 nodes_falsenodeids=2,0,0 target_treeids=0,0 target_nodeids=1,2 target_ids=0,1 target_weights=1,2 n_targets=5 : float[3,4]
ai.onnx.ml.TreeEnsembleClassifier nodes_treeids=0,0,0 nodes_nodeids=0,1,2 nodes_featureids=1,0,0 nodes_modes=BRANCH_LEQ,LEAF,LEAF nodes_values=0,0,0 nodes_truenodeids=1,0,0 nodes_falsenodeids=2,0,0 class_treeids=0,0 class_nodeids=1,2 class_ids=0,1 class_weights=1,2 classlabels_int64s=1,2,3,4,5 : float[3,4] -> 2
ai.onnx.ml.TreeEnsemble n_targets=5 nodes_splits=float:0 nodes_featureids=1 nodes_modes=uint8:0 nodes_truenodeids=0 nodes_falsenodeids=1 nodes_trueleafs=1 nodes_falseleafs=1 leaf_targetids=0,1 leaf_weights=float:1,2 tree_roots=0 : float[3,4]
)";

// Bodies of several nodes, what they take, and the links that they have together.
struct Body {
  const char *text, *inputs;
  int links;
};
inline constexpr Body kBodies[] = {
    // Gelu of a product: rows, columns, and what is summed.
    {"g (float[3,4,7] x, float[7,5] w) => (float[3,4,5] y) { m = MatMul (x, w) t = Tanh (m) y = Mul (m, t) }", "float[3,4,7] float[7,5]",
     4},
    // Attention: batch, heads, queries, keys, what is compared, values.
    {"g (float[3,2,4,8] q, float[3,2,6,8] k, float[3,2,6,5] v) => (float[3,2,4,5] y) { t = Transpose <perm = [0, 1, 3, 2]> (k)"
     " s = MatMul (q, t) p = Softmax (s) y = MatMul (p, v) }",
     "float[3,2,4,8] float[3,2,6,8] float[3,2,6,5]", 6},
    // Sizes that are numbers hold the batch, 0 does not.
    {"g (float[3,4,10] x) => (float[3,4,2,5] y) <int64[4] s = {3, 4, 2, 5}> { y = Reshape (x, s) }", "float[3,4,10]", 2},
    {"g (float[3,4,10] x) => (float[3,4,2,5] y) <int64[4] s = {0, 0, 2, 5}> { y = Reshape (x, s) }", "float[3,4,10]", 2},
    // A row of a constant beside each token, and a square of one axis.
    {"g (float[3,4] x) => (float[3,4] y) <float[4] c = {1, 2, 3, 4}> { y = Add (x, c) }", "float[3,4]", 1},
    {"g (float[4,4] x) => (float[4,4] y) { t = Transpose (x) y = Add (x, t) }", "float[4,4]", 0},
    {"g (float[3,4,5] x) => (float[3,4,5] y) { m = ReduceMean <keepdims = 1> (x) y = Sub (x, m) }", "float[3,4,5]", 3},
};

}  // namespace saturate::axes_test
