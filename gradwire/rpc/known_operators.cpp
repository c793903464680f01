#include "gradwire/rpc/known_operators.h"

#include <unordered_set>

namespace gradwire {
namespace {

constexpr std::string_view known_names = R"(
__and__ __iand__ __ilshift__ __ior__ __irshift__ __ixor__ __lshift__ __or__ __rshift__ __xor__ abs abs_ absolute
absolute_ acos acos_ acosh acosh_ adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d
adaptive_max_pool2d adaptive_max_pool3d add add_ addbmm addbmm_ addcdiv addcdiv_ addcmul addcmul_ addmm addmm_ addmv
addmv_ addr addr_ adjoint affine_grid_generator alias alias_copy align_as align_tensors align_to all allclose
alpha_dropout alpha_dropout_ amax amin aminmax angle any arange arccos arccos_ arccosh arccosh_ arcsin arcsin_ arcsinh
arcsinh_ arctan arctan2 arctan2_ arctan_ arctanh arctanh_ argmax argmin argsort argwhere as_strided as_strided_
as_strided_copy as_strided_scatter asin asin_ asinh asinh_ atan atan2 atan2_ atan_ atanh atanh_ atleast_1d atleast_2d
atleast_3d avg_pool1d avg_pool2d avg_pool3d baddbmm baddbmm_ bartlett_window batch_norm batch_norm_elemt
batch_norm_gather_stats batch_norm_gather_stats_with_counts batch_norm_stats batch_norm_update_stats bernoulli
bernoulli_ bilinear binary_cross_entropy binary_cross_entropy_with_logits bincount binomial bitwise_and bitwise_and_
bitwise_left_shift bitwise_left_shift_ bitwise_not bitwise_not_ bitwise_or bitwise_or_ bitwise_right_shift
bitwise_right_shift_ bitwise_xor bitwise_xor_ blackman_window block_diag bmm broadcast_tensors broadcast_to bucketize
can_cast cartesian_prod cat cauchy cauchy_ ccol_indices ccol_indices_copy cdist ceil ceil_ celu celu_ chain_matmul
chalf channel_shuffle cholesky cholesky_inverse cholesky_solve choose_qparams_optimized chunk clamp clamp_ clamp_max
clamp_max_ clamp_min clamp_min_ clip clip_ clone coalesce col2im col_indices col_indices_copy column_stack
combinations complex concat concatenate conj conj_physical conj_physical_ constant_pad_nd contiguous conv1d conv2d
conv3d conv_depthwise3d conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d convolution
convolution_overrideable copy copy_ copy_sparse_to_sparse copy_sparse_to_sparse_ copysign copysign_ corrcoef cos cos_
cosh cosh_ cosine_embedding_loss cosine_similarity count_nonzero cov cross cross_entropy_loss crow_indices
crow_indices_copy ctc_loss cummax cummin cumprod cumprod_ cumsum cumsum_ cumulative_trapezoid data deg2rad deg2rad_
dense_dim dequantize det detach detach_ detach_copy diag diag_embed diagflat diagonal diagonal_copy diagonal_scatter
diff digamma digamma_ dim dist div div_ divide divide_ dot dropout dropout_ dsplit dstack einsum elu elu_ embedding
embedding_bag embedding_renorm embedding_renorm_ eq eq_ equal erf erf_ erfc erfc_ erfinv erfinv_ exp exp2 exp2_ exp_
expand expand_as expand_copy expm1 expm1_ exponential exponential_ eye fake_quantize_per_channel_affine
fake_quantize_per_channel_affine_cachemask fake_quantize_per_tensor_affine fake_quantize_per_tensor_affine_cachemask
feature_alpha_dropout feature_alpha_dropout_ feature_dropout feature_dropout_ fft_fft fft_fft2 fft_fftfreq fft_fftn
fft_fftshift fft_hfft fft_hfft2 fft_hfftn fft_ifft fft_ifft2 fft_ifftn fft_ifftshift fft_ihfft fft_ihfft2 fft_ihfftn
fft_irfft fft_irfft2 fft_irfftn fft_rfft fft_rfft2 fft_rfftfreq fft_rfftn fill fill_ fill_diagonal_ fix fix_ flatten
flatten_dense_tensors flip fliplr flipud float_power float_power_ floor floor_ floor_divide floor_divide_ fmax fmin
fmod fmod_ frac frac_ fractional_max_pool2d fractional_max_pool3d frexp frobenius_norm full full_like
fused_moving_avg_obs_fake_quant gather gcd gcd_ ge ge_ gelu gelu_ geometric geometric_ geqrf ger get_device glu
glu_jvp gradient greater greater_ greater_equal greater_equal_ grid_sampler grid_sampler_2d grid_sampler_3d group_norm
gru gru_cell gt gt_ hamming_window hann_window hardshrink hardsigmoid hardsigmoid_ hardswish hardswish_ hardtanh
hardtanh_ hash_tensor heaviside heaviside_ hinge_embedding_loss histc histogram histogramdd hsplit hspmm hstack
huber_loss hypot hypot_ i0 i0_ igamma igamma_ igammac igammac_ im2col imag index index_add index_add_ index_copy
index_copy_ index_fill index_fill_ index_put index_put_ index_reduce index_reduce_ index_select indices indices_copy
inner instance_norm int_repr inverse is_coalesced is_complex is_conj is_contiguous is_distributed is_floating_point
is_inference is_leaf is_neg is_nonzero is_pinned is_same_size is_set_to is_signed is_vulkan_available isclose isfinite
isin isinf isnan isneginf isposinf isreal istft item kaiser_window kl_div kron kthvalue l1_loss layer_norm lcm lcm_
ldexp ldexp_ le le_ leaky_relu leaky_relu_ lerp lerp_ less less_ less_equal less_equal_ lgamma lgamma_ lift lift_fresh
lift_fresh_copy linalg__powsum linalg_cholesky linalg_cholesky_ex linalg_cond linalg_cross linalg_det linalg_diagonal
linalg_eig linalg_eigh linalg_eigvals linalg_eigvalsh linalg_householder_product linalg_inv linalg_inv_ex
linalg_ldl_factor linalg_ldl_factor_ex linalg_ldl_solve linalg_lstsq linalg_lu linalg_lu_factor linalg_lu_factor_ex
linalg_lu_solve linalg_matmul linalg_matrix_exp linalg_matrix_norm linalg_matrix_power linalg_matrix_rank
linalg_matrix_sqrth linalg_multi_dot linalg_norm linalg_pinv linalg_polar linalg_qr linalg_slogdet linalg_solve
linalg_solve_ex linalg_solve_triangular linalg_svd linalg_svdvals linalg_tensorinv linalg_tensorsolve linalg_vander
linalg_vecdot linalg_vector_norm linear linspace log log10 log10_ log1p log1p_ log2 log2_ log_ log_normal log_normal_
log_sigmoid log_sigmoid_forward log_softmax logaddexp logaddexp2 logcumsumexp logdet logical_and logical_and_
logical_not logical_not_ logical_or logical_or_ logical_xor logical_xor_ logit logit_ logspace logsumexp lstm
lstm_cell lt lt_ lu_solve lu_unpack mH mT margin_ranking_loss masked_fill masked_fill_ masked_scatter masked_scatter_
masked_select matmul matrix_H matrix_exp matrix_power max max_pool1d max_pool1d_with_indices max_pool2d
max_pool2d_with_indices max_pool3d max_pool3d_with_indices max_unpool2d max_unpool3d maximum mean median meshgrid min
minimum mish mish_ mm mode moveaxis movedim mse_loss msort mul mul_ multi_margin_loss multilabel_margin_loss
multilabel_margin_loss_forward multinomial multiply multiply_ mv mvlgamma mvlgamma_ nan_to_num nan_to_num_ nanmean
nanmedian nanquantile nansum narrow narrow_copy native_batch_norm native_channel_shuffle native_dropout
native_group_norm native_layer_norm native_norm ne ne_ neg neg_ negative negative_ nested_to_padded_tensor new_full
new_ones new_zeros nextafter nextafter_ nll_loss nll_loss2d nll_loss2d_forward nll_loss_forward nll_loss_nd nonzero
nonzero_numpy nonzero_static norm norm_except_dim normal normal_ normal_functional not_equal not_equal_ nuclear_norm
numel numpy_T one_hot ones ones_like orgqr ormqr outer output_nr pad pad_sequence pairwise_distance pdist permute
permute_copy pinverse pixel_shuffle pixel_unshuffle poisson poisson_nll_loss polar polygamma polygamma_ positive pow
pow_ prelu prod promote_types put put_ q_per_channel_axis q_per_channel_scales q_per_channel_zero_points q_scale
q_zero_point qr qscheme quantile quantize_per_channel quantize_per_tensor quantize_per_tensor_dynamic rad2deg rad2deg_
rand rand_like randint randint_like randn randn_like random random_ randperm range ravel real reciprocal reciprocal_
record_stream refine_names reflection_pad1d reflection_pad2d reflection_pad3d relu relu6 relu6_ relu_ remainder
remainder_ rename rename_ renorm renorm_ repeat repeat_interleave replication_pad1d replication_pad2d
replication_pad3d requires_grad_ reshape reshape_as resolve_conj resolve_neg result_type retain_grad retains_grad
rms_norm rnn_relu rnn_relu_cell rnn_tanh rnn_tanh_cell roll rot90 round round_ row_indices row_indices_copy row_stack
rrelu rrelu_ rrelu_with_noise rrelu_with_noise_ rrelu_with_noise_functional rsqrt rsqrt_ rsub scalar_tensor
scaled_dot_product_attention scatter scatter_ scatter_add scatter_add_ scatter_reduce scatter_reduce_ searchsorted
segment_reduce select select_copy select_scatter selu selu_ sgn sgn_ sigmoid sigmoid_ sign sign_ signbit silu silu_
sin sin_ sinc sinc_ sinh sinh_ size slice slice_copy slice_inverse slice_scatter slogdet slow_conv3d
slow_conv3d_forward slow_conv_dilated2d slow_conv_dilated3d slow_conv_transpose2d slow_conv_transpose3d smm
smooth_l1_loss soft_margin_loss softmax softplus softshrink sort sparse_bsc_tensor sparse_bsr_tensor
sparse_compressed_tensor sparse_coo_tensor sparse_csc_tensor sparse_csr_tensor sparse_dim sparse_mask
sparse_sampled_addmm special_airy_ai special_bessel_j0 special_bessel_j1 special_bessel_y0 special_bessel_y1
special_chebyshev_polynomial_t special_chebyshev_polynomial_u special_chebyshev_polynomial_v
special_chebyshev_polynomial_w special_digamma special_entr special_erf special_erfc special_erfcx special_erfinv
special_exp2 special_expit special_expm1 special_gammainc special_gammaincc special_gammaln
special_hermite_polynomial_h special_hermite_polynomial_he special_i0 special_i0e special_i1 special_i1e
special_laguerre_polynomial_l special_legendre_polynomial_p special_log1p special_log_ndtr special_log_softmax
special_logit special_logsumexp special_modified_bessel_i0 special_modified_bessel_i1 special_modified_bessel_k0
special_modified_bessel_k1 special_multigammaln special_ndtr special_ndtri special_polygamma special_psi special_round
special_scaled_modified_bessel_k0 special_scaled_modified_bessel_k1 special_shifted_chebyshev_polynomial_t
special_shifted_chebyshev_polynomial_u special_shifted_chebyshev_polynomial_v special_shifted_chebyshev_polynomial_w
special_sinc special_softmax special_spherical_bessel_j0 special_xlog1py special_xlogy special_zeta split split_copy
split_with_sizes split_with_sizes_copy sqrt sqrt_ square square_ squeeze squeeze_ squeeze_copy sspaddmm stack std
std_mean stft storage_offset stride sub sub_ subtract subtract_ sum sum_to_size svd swapaxes swapaxes_ swapdims
swapdims_ sym_constrain_range sym_constrain_range_for_size sym_is_contiguous sym_numel sym_size sym_storage_offset
sym_stride t t_ t_copy take take_along_dim tan tan_ tanh tanh_ tensor_split tensordot thnn_conv2d threshold threshold_
tile to to_dense to_mkldnn to_padded_tensor to_sparse to_sparse_bsc to_sparse_bsr to_sparse_csc to_sparse_csr topk
trace transpose transpose_ transpose_copy trapezoid trapz triangular_solve tril tril_ tril_indices triplet_margin_loss
triu triu_ triu_indices true_divide true_divide_ trunc trunc_ type_as unbind unbind_copy unflatten
unflatten_dense_tensors unfold unfold_copy uniform uniform_ unique_consecutive unique_dim unique_dim_consecutive
unsafe_chunk unsafe_split unsafe_split_with_sizes unsqueeze unsqueeze_ unsqueeze_copy upsample_bicubic2d
upsample_bilinear2d upsample_linear1d upsample_nearest1d upsample_nearest2d upsample_nearest3d upsample_trilinear3d
values values_copy vander var var_mean vdot view view_as view_as_complex view_as_complex_copy view_as_real
view_as_real_copy view_copy vsplit vstack where xlogy xlogy_ zero zero_ zeros zeros_like
)";

std::unordered_set<std::string_view> words_of(std::string_view text) {
  constexpr std::string_view spaces = " \n";
  std::unordered_set<std::string_view> words;
  for (size_t begin = text.find_first_not_of(spaces); begin != std::string_view::npos;
       begin = text.find_first_not_of(spaces)) {
    text.remove_prefix(begin);
    const size_t size = std::min(text.find_first_of(spaces), text.size());
    words.insert(text.substr(0, size));
    text.remove_prefix(size);
  }
  return words;
}

}  // namespace

bool is_known_operator(std::string_view name) {
  static const std::unordered_set<std::string_view> known = words_of(known_names);
  return known.contains(name);
}

}  // namespace gradwire
