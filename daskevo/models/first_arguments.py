"""Arguments that the layers of Keras 3.13 had, the oldest version whose models can be loaded and matched.

A later version adds arguments. At their default they change nothing, so there they are no part of a signature; those
named here always are, also where a version changes a default. Classes that aren't named are younger.
"""

from __future__ import annotations

import functools
import inspect

import keras

from daskevo.models.keras_private import public_name
from daskevo.types import JSON

_EVERYWHERE = frozenset({"name", "trainable", "dtype"})
_ARGUMENTS: dict[str, str] = {
    "keras.InputSpec": "allow_last_axis_squeeze axes max_ndim min_ndim ndim optional shape",
    "keras.Layer": "activity_regularizer autocast",
    "Activation": "activation activity_regularizer autocast",
    "ActivityRegularization": "activity_regularizer autocast l1 l2",
    "AdaptiveAveragePooling1D": "activity_regularizer autocast data_format output_size",
    "AdaptiveAveragePooling2D": "activity_regularizer autocast data_format output_size",
    "AdaptiveAveragePooling3D": "activity_regularizer autocast data_format output_size",
    "AdaptiveMaxPooling1D": "activity_regularizer autocast data_format output_size",
    "AdaptiveMaxPooling2D": "activity_regularizer autocast data_format output_size",
    "AdaptiveMaxPooling3D": "activity_regularizer autocast data_format output_size",
    "Add": "activity_regularizer autocast",
    "AdditiveAttention": "activity_regularizer autocast dropout score_mode seed use_scale",
    "AlphaDropout": "activity_regularizer autocast noise_shape rate seed",
    "Attention": "activity_regularizer autocast dropout score_mode seed use_scale",
    "AugMix": (
        "activity_regularizer all_ops alpha autocast bounding_box_format chain_depth data_format "
        "factor interpolation num_chains seed value_range"
    ),
    "AutoContrast": "activity_regularizer autocast bounding_box_format data_format factor value_range",
    "Average": "activity_regularizer autocast",
    "AveragePooling1D": (
        "activity_regularizer autocast data_format padding pool_dimensions pool_mode pool_size strides"
    ),
    "AveragePooling2D": (
        "activity_regularizer autocast data_format padding pool_dimensions pool_mode pool_size strides"
    ),
    "AveragePooling3D": (
        "activity_regularizer autocast data_format padding pool_dimensions pool_mode pool_size strides"
    ),
    "BatchNormalization": (
        "activity_regularizer autocast axis beta_constraint beta_initializer beta_regularizer "
        "center epsilon gamma_constraint gamma_initializer gamma_regularizer momentum "
        "moving_mean_initializer moving_variance_initializer scale synchronized"
    ),
    "Bidirectional": "activity_regularizer autocast backward_layer layer merge_mode weights",
    "CategoryEncoding": "activity_regularizer autocast num_tokens output_mode sparse",
    "CenterCrop": "activity_regularizer autocast bounding_box_format data_format factor height width",
    "Concatenate": "activity_regularizer autocast axis",
    "Conv1D": (
        "activation activity_regularizer autocast bias_constraint bias_initializer bias_regularizer "
        "data_format dilation_rate filters groups kernel_constraint kernel_initializer "
        "kernel_regularizer kernel_size lora_alpha lora_rank padding rank strides use_bias"
    ),
    "Conv1DTranspose": (
        "activation activity_regularizer autocast bias_constraint bias_initializer bias_regularizer "
        "data_format dilation_rate filters kernel_constraint kernel_initializer kernel_regularizer "
        "kernel_size output_padding padding rank strides use_bias"
    ),
    "Conv2D": (
        "activation activity_regularizer autocast bias_constraint bias_initializer bias_regularizer "
        "data_format dilation_rate filters groups kernel_constraint kernel_initializer "
        "kernel_regularizer kernel_size lora_alpha lora_rank padding rank strides use_bias"
    ),
    "Conv2DTranspose": (
        "activation activity_regularizer autocast bias_constraint bias_initializer bias_regularizer "
        "data_format dilation_rate filters kernel_constraint kernel_initializer kernel_regularizer "
        "kernel_size output_padding padding rank strides use_bias"
    ),
    "Conv3D": (
        "activation activity_regularizer autocast bias_constraint bias_initializer bias_regularizer "
        "data_format dilation_rate filters groups kernel_constraint kernel_initializer "
        "kernel_regularizer kernel_size lora_alpha lora_rank padding rank strides use_bias"
    ),
    "Conv3DTranspose": (
        "activation activity_regularizer autocast bias_constraint bias_initializer bias_regularizer "
        "data_format dilation_rate filters kernel_constraint kernel_initializer kernel_regularizer "
        "kernel_size output_padding padding rank strides use_bias"
    ),
    "ConvLSTM1D": (
        "activation activity_regularizer autocast bias_constraint bias_initializer bias_regularizer "
        "cell data_format dilation_rate dropout filters go_backwards kernel_constraint "
        "kernel_initializer kernel_regularizer kernel_size padding rank recurrent_activation "
        "recurrent_constraint recurrent_dropout recurrent_initializer recurrent_regularizer "
        "return_sequences return_state seed stateful strides unit_forget_bias unroll use_bias "
        "zero_output_for_mask"
    ),
    "ConvLSTM2D": (
        "activation activity_regularizer autocast bias_constraint bias_initializer bias_regularizer "
        "cell data_format dilation_rate dropout filters go_backwards kernel_constraint "
        "kernel_initializer kernel_regularizer kernel_size padding rank recurrent_activation "
        "recurrent_constraint recurrent_dropout recurrent_initializer recurrent_regularizer "
        "return_sequences return_state seed stateful strides unit_forget_bias unroll use_bias "
        "zero_output_for_mask"
    ),
    "ConvLSTM3D": (
        "activation activity_regularizer autocast bias_constraint bias_initializer bias_regularizer "
        "cell data_format dilation_rate dropout filters go_backwards kernel_constraint "
        "kernel_initializer kernel_regularizer kernel_size padding rank recurrent_activation "
        "recurrent_constraint recurrent_dropout recurrent_initializer recurrent_regularizer "
        "return_sequences return_state seed stateful strides unit_forget_bias unroll use_bias "
        "zero_output_for_mask"
    ),
    "Cropping1D": "activity_regularizer autocast cropping",
    "Cropping2D": "activity_regularizer autocast cropping data_format",
    "Cropping3D": "activity_regularizer autocast cropping data_format",
    "CutMix": "activity_regularizer autocast bounding_box_format data_format factor seed",
    "Dense": (
        "activation activity_regularizer autocast bias_constraint bias_initializer bias_regularizer "
        "kernel_constraint kernel_initializer kernel_regularizer lora_alpha lora_rank "
        "quantization_config units use_bias"
    ),
    "DepthwiseConv1D": (
        "activation activity_regularizer autocast bias_constraint bias_initializer bias_regularizer "
        "data_format depth_multiplier depthwise_constraint depthwise_initializer "
        "depthwise_regularizer dilation_rate kernel_size padding rank strides use_bias"
    ),
    "DepthwiseConv2D": (
        "activation activity_regularizer autocast bias_constraint bias_initializer bias_regularizer "
        "data_format depth_multiplier depthwise_constraint depthwise_initializer "
        "depthwise_regularizer dilation_rate kernel_size padding rank strides use_bias"
    ),
    "Discretization": "activity_regularizer autocast bin_boundaries epsilon num_bins output_mode sparse",
    "Dot": "activity_regularizer autocast axes normalize",
    "Dropout": "activity_regularizer autocast noise_shape rate seed",
    "ELU": "activity_regularizer alpha autocast",
    "EinsumDense": (
        "activation activity_regularizer autocast bias_axes bias_constraint bias_initializer "
        "bias_regularizer equation gptq_unpacked_column_size kernel_constraint kernel_initializer "
        "kernel_regularizer lora_alpha lora_rank output_shape quantization_config"
    ),
    "Embedding": (
        "activity_regularizer autocast embeddings_constraint embeddings_initializer "
        "embeddings_regularizer input_dim lora_alpha lora_rank mask_zero output_dim "
        "quantization_config weights"
    ),
    "Equalization": "activity_regularizer autocast bins bounding_box_format data_format factor value_range",
    "Flatten": "activity_regularizer autocast data_format",
    "FlaxLayer": "activity_regularizer autocast call_fn init_fn method module params seed state variables",
    "GRU": (
        "activation activity_regularizer autocast bias_constraint bias_initializer bias_regularizer "
        "cell dropout go_backwards kernel_constraint kernel_initializer kernel_regularizer "
        "recurrent_activation recurrent_constraint recurrent_dropout recurrent_initializer "
        "recurrent_regularizer reset_after return_sequences return_state seed stateful units unroll "
        "use_bias use_cudnn zero_output_for_mask"
    ),
    "GRUCell": (
        "activation activity_regularizer autocast bias_constraint bias_initializer bias_regularizer "
        "dropout kernel_constraint kernel_initializer kernel_regularizer recurrent_activation "
        "recurrent_constraint recurrent_dropout recurrent_initializer recurrent_regularizer "
        "reset_after seed units use_bias"
    ),
    "GaussianDropout": "activity_regularizer autocast rate seed",
    "GaussianNoise": "activity_regularizer autocast seed stddev",
    "GlobalAveragePooling1D": "activity_regularizer autocast data_format keepdims pool_dimensions",
    "GlobalAveragePooling2D": "activity_regularizer autocast data_format keepdims pool_dimensions",
    "GlobalAveragePooling3D": "activity_regularizer autocast data_format keepdims pool_dimensions",
    "GlobalMaxPooling1D": "activity_regularizer autocast data_format keepdims pool_dimensions",
    "GlobalMaxPooling2D": "activity_regularizer autocast data_format keepdims pool_dimensions",
    "GlobalMaxPooling3D": "activity_regularizer autocast data_format keepdims pool_dimensions",
    "GroupNormalization": (
        "activity_regularizer autocast axis beta_constraint beta_initializer beta_regularizer "
        "center epsilon gamma_constraint gamma_initializer gamma_regularizer groups scale"
    ),
    "GroupQueryAttention": (
        "activity_regularizer autocast bias_constraint bias_initializer bias_regularizer dropout "
        "flash_attention head_dim kernel_constraint kernel_initializer kernel_regularizer "
        "num_key_value_heads num_query_heads seed use_bias"
    ),
    "HashedCrossing": "activity_regularizer autocast num_bins output_mode sparse",
    "Hashing": "activity_regularizer autocast mask_value num_bins output_mode salt sparse",
    "Identity": "activity_regularizer autocast",
    "InputLayer": ("activity_regularizer autocast batch_shape batch_size input_tensor optional ragged shape sparse"),
    "IntegerLookup": (
        "activity_regularizer autocast idf_weights invert mask_token max_tokens num_oov_indices "
        "oov_token output_mode pad_to_max_tokens sparse vocabulary vocabulary_dtype"
    ),
    "JaxLayer": "activity_regularizer autocast call_fn init_fn params seed state",
    "LSTM": (
        "activation activity_regularizer autocast bias_constraint bias_initializer bias_regularizer "
        "cell dropout go_backwards kernel_constraint kernel_initializer kernel_regularizer "
        "recurrent_activation recurrent_constraint recurrent_dropout recurrent_initializer "
        "recurrent_regularizer return_sequences return_state seed stateful unit_forget_bias units "
        "unroll use_bias use_cudnn zero_output_for_mask"
    ),
    "LSTMCell": (
        "activation activity_regularizer autocast bias_constraint bias_initializer bias_regularizer "
        "dropout kernel_constraint kernel_initializer kernel_regularizer recurrent_activation "
        "recurrent_constraint recurrent_dropout recurrent_initializer recurrent_regularizer seed "
        "unit_forget_bias units use_bias"
    ),
    "Lambda": "activity_regularizer arguments autocast function mask output_shape",
    "LayerNormalization": (
        "activity_regularizer autocast axis beta_constraint beta_initializer beta_regularizer "
        "center epsilon gamma_constraint gamma_initializer gamma_regularizer scale"
    ),
    "LeakyReLU": "activity_regularizer autocast negative_slope",
    "Masking": "activity_regularizer autocast mask_value",
    "MaxNumBoundingBoxes": "activity_regularizer autocast bounding_box_format data_format factor fill_value max_number",
    "MaxPooling1D": ("activity_regularizer autocast data_format padding pool_dimensions pool_mode pool_size strides"),
    "MaxPooling2D": ("activity_regularizer autocast data_format padding pool_dimensions pool_mode pool_size strides"),
    "MaxPooling3D": ("activity_regularizer autocast data_format padding pool_dimensions pool_mode pool_size strides"),
    "Maximum": "activity_regularizer autocast",
    "MelSpectrogram": (
        "activity_regularizer autocast fft_length mag_exp max_freq min_freq min_power num_mel_bins "
        "power_to_db ref_power sampling_rate sequence_length sequence_stride top_db window"
    ),
    "Minimum": "activity_regularizer autocast",
    "MixUp": "activity_regularizer alpha autocast bounding_box_format data_format factor seed",
    "MultiHeadAttention": (
        "activity_regularizer attention_axes autocast bias_constraint bias_initializer "
        "bias_regularizer dropout flash_attention kernel_constraint kernel_initializer "
        "kernel_regularizer key_dim num_heads output_shape seed use_bias value_dim"
    ),
    "Multiply": "activity_regularizer autocast",
    "Normalization": "activity_regularizer autocast axis invert mean variance",
    "PReLU": ("activity_regularizer alpha_constraint alpha_initializer alpha_regularizer autocast shared_axes"),
    "Permute": "activity_regularizer autocast dims",
    "Pipeline": "activity_regularizer autocast layers",
    "RMSNormalization": "activity_regularizer autocast axis epsilon",
    "RNN": (
        "activity_regularizer autocast cell go_backwards return_sequences return_state stateful "
        "unroll zero_output_for_mask"
    ),
    "RandAugment": (
        "activity_regularizer autocast bounding_box_format data_format factor interpolation num_ops seed value_range"
    ),
    "RandomBrightness": "activity_regularizer autocast bounding_box_format data_format factor seed value_range",
    "RandomColorDegeneration": "activity_regularizer autocast bounding_box_format data_format factor seed value_range",
    "RandomColorJitter": (
        "activity_regularizer autocast bounding_box_format brightness_factor contrast_factor "
        "data_format factor hue_factor saturation_factor seed value_range"
    ),
    "RandomContrast": "activity_regularizer autocast bounding_box_format data_format factor seed value_range",
    "RandomCrop": "activity_regularizer autocast bounding_box_format data_format factor height seed width",
    "RandomElasticTransform": (
        "activity_regularizer autocast bounding_box_format data_format factor fill_mode fill_value "
        "interpolation scale seed value_range"
    ),
    "RandomErasing": (
        "activity_regularizer autocast bounding_box_format data_format factor fill_value scale seed value_range"
    ),
    "RandomFlip": "activity_regularizer autocast bounding_box_format data_format factor mode seed",
    "RandomGaussianBlur": (
        "activity_regularizer autocast bounding_box_format data_format factor kernel_size seed sigma value_range"
    ),
    "RandomGrayscale": "activity_regularizer autocast bounding_box_format data_format factor seed",
    "RandomHue": "activity_regularizer autocast bounding_box_format data_format factor seed value_range",
    "RandomInvert": "activity_regularizer autocast bounding_box_format data_format factor seed value_range",
    "RandomPerspective": (
        "activity_regularizer autocast bounding_box_format data_format factor fill_value interpolation scale seed"
    ),
    "RandomPosterization": "activity_regularizer autocast bounding_box_format data_format factor seed value_range",
    "RandomRotation": (
        "activity_regularizer autocast bounding_box_format data_format factor fill_mode fill_value interpolation seed"
    ),
    "RandomSaturation": "activity_regularizer autocast bounding_box_format data_format factor seed value_range",
    "RandomSharpness": "activity_regularizer autocast bounding_box_format data_format factor seed value_range",
    "RandomShear": (
        "activity_regularizer autocast bounding_box_format data_format factor fill_mode fill_value "
        "interpolation seed x_factor y_factor"
    ),
    "RandomTranslation": (
        "activity_regularizer autocast bounding_box_format data_format factor fill_mode fill_value "
        "height_factor interpolation seed width_factor"
    ),
    "RandomZoom": (
        "activity_regularizer autocast bounding_box_format data_format factor fill_mode fill_value "
        "height_factor interpolation seed width_factor"
    ),
    "ReLU": "activity_regularizer autocast max_value negative_slope threshold",
    "RepeatVector": "activity_regularizer autocast n",
    "Rescaling": "activity_regularizer autocast offset scale",
    "Reshape": "activity_regularizer autocast target_shape",
    "Resizing": (
        "activity_regularizer antialias autocast bounding_box_format crop_to_aspect_ratio "
        "data_format factor fill_mode fill_value height interpolation pad_to_aspect_ratio width"
    ),
    "ReversibleEmbedding": (
        "activity_regularizer autocast embeddings_constraint embeddings_initializer "
        "embeddings_regularizer input_dim logit_soft_cap lora_alpha lora_rank mask_zero output_dim "
        "quantization_config reverse_dtype tie_weights weights"
    ),
    "STFTSpectrogram": (
        "activity_regularizer autocast data_format expand_dims fft_length frame_length frame_step "
        "mode padding periodic scaling window"
    ),
    "SeparableConv1D": (
        "activation activity_regularizer autocast bias_constraint bias_initializer bias_regularizer "
        "data_format depth_multiplier depthwise_constraint depthwise_initializer "
        "depthwise_regularizer dilation_rate filters kernel_size padding pointwise_constraint "
        "pointwise_initializer pointwise_regularizer rank strides use_bias"
    ),
    "SeparableConv2D": (
        "activation activity_regularizer autocast bias_constraint bias_initializer bias_regularizer "
        "data_format depth_multiplier depthwise_constraint depthwise_initializer "
        "depthwise_regularizer dilation_rate filters kernel_size padding pointwise_constraint "
        "pointwise_initializer pointwise_regularizer rank strides use_bias"
    ),
    "SimpleRNN": (
        "activation activity_regularizer autocast bias_constraint bias_initializer bias_regularizer "
        "cell dropout go_backwards kernel_constraint kernel_initializer kernel_regularizer "
        "recurrent_constraint recurrent_dropout recurrent_initializer recurrent_regularizer "
        "return_sequences return_state seed stateful units unroll use_bias zero_output_for_mask"
    ),
    "SimpleRNNCell": (
        "activation activity_regularizer autocast bias_constraint bias_initializer bias_regularizer "
        "dropout kernel_constraint kernel_initializer kernel_regularizer recurrent_constraint "
        "recurrent_dropout recurrent_initializer recurrent_regularizer seed units use_bias"
    ),
    "Softmax": "activity_regularizer autocast axis",
    "Solarization": (
        "activity_regularizer addition_factor autocast bounding_box_format data_format factor seed "
        "threshold_factor value_range"
    ),
    "SpatialDropout1D": "activity_regularizer autocast noise_shape rate seed",
    "SpatialDropout2D": "activity_regularizer autocast data_format noise_shape rate seed",
    "SpatialDropout3D": "activity_regularizer autocast data_format noise_shape rate seed",
    "SpectralNormalization": "activity_regularizer autocast layer power_iterations",
    "StackedRNNCells": "activity_regularizer autocast cells",
    "StringLookup": (
        "activity_regularizer autocast encoding idf_weights invert mask_token max_tokens "
        "num_oov_indices oov_token output_mode pad_to_max_tokens sparse vocabulary vocabulary_dtype"
    ),
    "Subtract": "activity_regularizer autocast",
    "TFSMLayer": "activity_regularizer autocast call_endpoint call_training_endpoint filepath",
    "TextVectorization": (
        "activity_regularizer autocast encoding idf_weights max_tokens ngrams output_mode "
        "output_sequence_length pad_to_max_tokens ragged sparse split standardize vocabulary"
    ),
    "TimeDistributed": "activity_regularizer autocast layer",
    "TorchModuleWrapper": "activity_regularizer autocast module output_shape",
    "UnitNormalization": "activity_regularizer autocast axis",
    "UpSampling1D": "activity_regularizer autocast size",
    "UpSampling2D": "activity_regularizer autocast data_format interpolation size",
    "UpSampling3D": "activity_regularizer autocast data_format size",
    "Wrapper": "activity_regularizer autocast layer",
    "ZeroPadding1D": "activity_regularizer autocast data_format padding",
    "ZeroPadding2D": "activity_regularizer autocast data_format padding",
    "ZeroPadding3D": "activity_regularizer autocast data_format padding",
}


def is_later_default(kind: type, argument: str, value: JSON) -> bool:
    """Whether a layer's argument is one that Keras added after version 3.13, with its default value.

    Parameters
    ----------
    kind:
        A class of Keras. Operations (``keras.ops``) aren't listed here: all arguments of theirs count.
    argument, value:
        As in its configuration.
    """
    if not issubclass(kind, keras.layers.Layer) or argument in _first_arguments(kind):
        return False
    default = arguments_of(kind).get(argument, inspect.Parameter.empty)
    return type(value) is type(default) and value == default


@functools.cache
def _first_arguments(kind: type) -> frozenset[str]:
    name = (public_name(kind) or "").removeprefix("keras.layers.")
    return _EVERYWHERE | frozenset(_ARGUMENTS.get(name, "").split())


@functools.cache
def arguments_of(kind: type) -> dict[str, object]:
    """Return the arguments of a class of the running Keras, its bases' included, with their defaults."""
    found: dict[str, object] = {}
    for base in kind.__mro__:
        if "__init__" in vars(base):
            for name, parameter in inspect.signature(base.__init__).parameters.items():  # type: ignore[misc]
                found.setdefault(name, parameter.default)
    return found
