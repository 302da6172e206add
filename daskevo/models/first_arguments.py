"""Arguments that the layers of Keras 3.13 had, the oldest version whose models can be loaded and matched.

A later version adds arguments. At their default they change nothing, so there they are no part of a signature; those
named here always are, also where a version changes a default. Classes that aren't named are younger.
"""

from __future__ import annotations

import functools
import inspect
import re

import keras

from daskevo.models.keras_private import public_name
from daskevo.types import JSON

_EVERYWHERE = frozenset({"name", "trainable", "dtype"})
_OF_ALL_NAMED = frozenset({"activity_regularizer", "autocast"})
_ARGUMENTS: dict[str, str] = {
    "keras.Layer": "",
    "Activation": "activation",
    "ActivityRegularization": "l1 l2",
    "AdaptiveAveragePooling?D": "data_format output_size",
    "AdaptiveMaxPooling?D": "data_format output_size",
    "Add": "",
    "AdditiveAttention": "dropout score_mode seed use_scale",
    "AlphaDropout": "noise_shape rate seed",
    "Attention": "dropout score_mode seed use_scale",
    "AugMix": (
        "all_ops alpha bounding_box_format chain_depth data_format factor interpolation num_chains seed value_range"
    ),
    "AutoContrast": "bounding_box_format data_format factor value_range",
    "Average": "",
    "AveragePooling?D": "data_format padding pool_dimensions pool_mode pool_size strides",
    "BatchNormalization": (
        "axis beta_* center epsilon gamma_* momentum moving_mean_initializer moving_variance_initializer scale "
        "synchronized"
    ),
    "Bidirectional": "backward_layer layer merge_mode weights",
    "CategoryEncoding": "num_tokens output_mode sparse",
    "CenterCrop": "bounding_box_format data_format factor height width",
    "Concatenate": "axis",
    "Conv?D": (
        "activation bias_* data_format dilation_rate filters groups kernel_* kernel_size lora_alpha lora_rank "
        "padding rank strides use_bias"
    ),
    "Conv?DTranspose": (
        "activation bias_* data_format dilation_rate filters kernel_* kernel_size output_padding padding rank "
        "strides use_bias"
    ),
    "ConvLSTM?D": (
        "activation bias_* cell data_format dilation_rate dropout filters go_backwards kernel_* kernel_size "
        "padding rank recurrent_* recurrent_activation recurrent_dropout return_sequences return_state seed "
        "stateful strides unit_forget_bias unroll use_bias zero_output_for_mask"
    ),
    "Cropping1D": "cropping",
    "Cropping2D": "cropping data_format",
    "Cropping3D": "cropping data_format",
    "CutMix": "bounding_box_format data_format factor seed",
    "Dense": "activation bias_* kernel_* lora_alpha lora_rank quantization_config units use_bias",
    "DepthwiseConv1D": (
        "activation bias_* data_format depth_multiplier depthwise_* dilation_rate kernel_size padding rank strides "
        "use_bias"
    ),
    "DepthwiseConv2D": (
        "activation bias_* data_format depth_multiplier depthwise_* dilation_rate kernel_size padding rank strides "
        "use_bias"
    ),
    "Discretization": "bin_boundaries epsilon num_bins output_mode sparse",
    "Dot": "axes normalize",
    "Dropout": "noise_shape rate seed",
    "ELU": "alpha",
    "EinsumDense": (
        "activation bias_* bias_axes equation gptq_unpacked_column_size kernel_* lora_alpha lora_rank output_shape "
        "quantization_config"
    ),
    "Embedding": "embeddings_* input_dim lora_alpha lora_rank mask_zero output_dim quantization_config weights",
    "Equalization": "bins bounding_box_format data_format factor value_range",
    "Flatten": "data_format",
    "FlaxLayer": "call_fn init_fn method module params seed state variables",
    "GRU": (
        "activation bias_* cell dropout go_backwards kernel_* recurrent_* recurrent_activation recurrent_dropout "
        "reset_after return_sequences return_state seed stateful units unroll use_bias use_cudnn "
        "zero_output_for_mask"
    ),
    "GRUCell": (
        "activation bias_* dropout kernel_* recurrent_* recurrent_activation recurrent_dropout reset_after seed "
        "units use_bias"
    ),
    "GaussianDropout": "rate seed",
    "GaussianNoise": "seed stddev",
    "GlobalAveragePooling?D": "data_format keepdims pool_dimensions",
    "GlobalMaxPooling?D": "data_format keepdims pool_dimensions",
    "GroupNormalization": "axis beta_* center epsilon gamma_* groups scale",
    "GroupQueryAttention": (
        "bias_* dropout flash_attention head_dim kernel_* num_key_value_heads num_query_heads seed use_bias"
    ),
    "HashedCrossing": "num_bins output_mode sparse",
    "Hashing": "mask_value num_bins output_mode salt sparse",
    "Identity": "",
    "InputLayer": "batch_shape batch_size input_tensor optional ragged shape sparse",
    "IntegerLookup": (
        "idf_weights invert mask_token max_tokens num_oov_indices oov_token output_mode pad_to_max_tokens sparse "
        "vocabulary vocabulary_dtype"
    ),
    "JaxLayer": "call_fn init_fn params seed state",
    "LSTM": (
        "activation bias_* cell dropout go_backwards kernel_* recurrent_* recurrent_activation recurrent_dropout "
        "return_sequences return_state seed stateful unit_forget_bias units unroll use_bias use_cudnn "
        "zero_output_for_mask"
    ),
    "LSTMCell": (
        "activation bias_* dropout kernel_* recurrent_* recurrent_activation recurrent_dropout seed "
        "unit_forget_bias units use_bias"
    ),
    "Lambda": "arguments function mask output_shape",
    "LayerNormalization": "axis beta_* center epsilon gamma_* scale",
    "LeakyReLU": "negative_slope",
    "Masking": "mask_value",
    "MaxNumBoundingBoxes": "bounding_box_format data_format factor fill_value max_number",
    "MaxPooling?D": "data_format padding pool_dimensions pool_mode pool_size strides",
    "Maximum": "",
    "MelSpectrogram": (
        "fft_length mag_exp max_freq min_freq min_power num_mel_bins power_to_db ref_power sampling_rate "
        "sequence_length sequence_stride top_db window"
    ),
    "Minimum": "",
    "MixUp": "alpha bounding_box_format data_format factor seed",
    "MultiHeadAttention": (
        "attention_axes bias_* dropout flash_attention kernel_* key_dim num_heads output_shape seed use_bias value_dim"
    ),
    "Multiply": "",
    "Normalization": "axis invert mean variance",
    "PReLU": "alpha_* shared_axes",
    "Permute": "dims",
    "Pipeline": "layers",
    "RMSNormalization": "axis epsilon",
    "RNN": "cell go_backwards return_sequences return_state stateful unroll zero_output_for_mask",
    "RandAugment": "bounding_box_format data_format factor interpolation num_ops seed value_range",
    "RandomBrightness": "bounding_box_format data_format factor seed value_range",
    "RandomColorDegeneration": "bounding_box_format data_format factor seed value_range",
    "RandomColorJitter": (
        "bounding_box_format brightness_factor contrast_factor data_format factor hue_factor saturation_factor "
        "seed value_range"
    ),
    "RandomContrast": "bounding_box_format data_format factor seed value_range",
    "RandomCrop": "bounding_box_format data_format factor height seed width",
    "RandomElasticTransform": (
        "bounding_box_format data_format factor fill_mode fill_value interpolation scale seed value_range"
    ),
    "RandomErasing": "bounding_box_format data_format factor fill_value scale seed value_range",
    "RandomFlip": "bounding_box_format data_format factor mode seed",
    "RandomGaussianBlur": "bounding_box_format data_format factor kernel_size seed sigma value_range",
    "RandomGrayscale": "bounding_box_format data_format factor seed",
    "RandomHue": "bounding_box_format data_format factor seed value_range",
    "RandomInvert": "bounding_box_format data_format factor seed value_range",
    "RandomPerspective": "bounding_box_format data_format factor fill_value interpolation scale seed",
    "RandomPosterization": "bounding_box_format data_format factor seed value_range",
    "RandomRotation": "bounding_box_format data_format factor fill_mode fill_value interpolation seed",
    "RandomSaturation": "bounding_box_format data_format factor seed value_range",
    "RandomSharpness": "bounding_box_format data_format factor seed value_range",
    "RandomShear": "bounding_box_format data_format factor fill_mode fill_value interpolation seed x_factor y_factor",
    "RandomTranslation": (
        "bounding_box_format data_format factor fill_mode fill_value height_factor interpolation seed width_factor"
    ),
    "RandomZoom": (
        "bounding_box_format data_format factor fill_mode fill_value height_factor interpolation seed width_factor"
    ),
    "ReLU": "max_value negative_slope threshold",
    "RepeatVector": "n",
    "Rescaling": "offset scale",
    "Reshape": "target_shape",
    "Resizing": (
        "antialias bounding_box_format crop_to_aspect_ratio data_format factor fill_mode fill_value height "
        "interpolation pad_to_aspect_ratio width"
    ),
    "ReversibleEmbedding": (
        "embeddings_* input_dim logit_soft_cap lora_alpha lora_rank mask_zero output_dim quantization_config "
        "reverse_dtype tie_weights weights"
    ),
    "STFTSpectrogram": (
        "data_format expand_dims fft_length frame_length frame_step mode padding periodic scaling window"
    ),
    "SeparableConv1D": (
        "activation bias_* data_format depth_multiplier depthwise_* dilation_rate filters kernel_size padding "
        "pointwise_* rank strides use_bias"
    ),
    "SeparableConv2D": (
        "activation bias_* data_format depth_multiplier depthwise_* dilation_rate filters kernel_size padding "
        "pointwise_* rank strides use_bias"
    ),
    "SimpleRNN": (
        "activation bias_* cell dropout go_backwards kernel_* recurrent_* recurrent_dropout return_sequences "
        "return_state seed stateful units unroll use_bias zero_output_for_mask"
    ),
    "SimpleRNNCell": "activation bias_* dropout kernel_* recurrent_* recurrent_dropout seed units use_bias",
    "Softmax": "axis",
    "Solarization": "addition_factor bounding_box_format data_format factor seed threshold_factor value_range",
    "SpatialDropout1D": "noise_shape rate seed",
    "SpatialDropout2D": "data_format noise_shape rate seed",
    "SpatialDropout3D": "data_format noise_shape rate seed",
    "SpectralNormalization": "layer power_iterations",
    "StackedRNNCells": "cells",
    "StringLookup": (
        "encoding idf_weights invert mask_token max_tokens num_oov_indices oov_token output_mode pad_to_max_tokens "
        "sparse vocabulary vocabulary_dtype"
    ),
    "Subtract": "",
    "TFSMLayer": "call_endpoint call_training_endpoint filepath",
    "TextVectorization": (
        "encoding idf_weights max_tokens ngrams output_mode output_sequence_length pad_to_max_tokens ragged sparse "
        "split standardize vocabulary"
    ),
    "TimeDistributed": "layer",
    "TorchModuleWrapper": "module output_shape",
    "UnitNormalization": "axis",
    "UpSampling1D": "size",
    "UpSampling2D": "data_format interpolation size",
    "UpSampling3D": "data_format size",
    "Wrapper": "layer",
    "ZeroPadding?D": "data_format padding",
}
"""Layer, ``?D`` for those of one, two and three dimensions -> its arguments beside those of all; ``x_*`` stands for
`x_constraint`, `x_initializer` and `x_regularizer`."""


def is_later_default(kind: type, argument: str, value: JSON) -> bool:
    """Whether a layer's argument is one that Keras added after version 3.13, with its default value.

    Parameters
    ----------
    kind:
        A class of Keras. Operations (``keras.ops``) aren't listed here: all arguments of theirs count.
    argument, value:
        As in its configuration.
    """
    # What was an argument in version 3.13 is in the signatures of that time, whatever its default is now.
    if not issubclass(kind, keras.layers.Layer) or argument in _first_arguments(kind):
        return False
    default = arguments_of(kind).get(argument, inspect.Parameter.empty)
    return type(value) is type(default) and value == default


@functools.cache
def _first_arguments(kind: type) -> frozenset[str]:
    name = (public_name(kind) or "").removeprefix("keras.layers.")
    words = _ARGUMENTS.get(name, _ARGUMENTS.get(re.sub("[123]D", "?D", name)))
    if words is None:
        return _EVERYWHERE
    return _EVERYWHERE.union(_OF_ALL_NAMED, *map(_spelled, words.split()))


def _spelled(word: str) -> list[str]:
    if not word.endswith("_*"):
        return [word]
    return [word[:-1] + ending for ending in ("constraint", "initializer", "regularizer")]


@functools.cache
def arguments_of(kind: type) -> dict[str, object]:
    """Return the arguments of a class of the running Keras, its bases' included, with their defaults."""
    found: dict[str, object] = {}
    # Bases too: most layers pass `**kwargs` on to them. The class' own default comes first, and counts.
    for base in kind.__mro__:
        if "__init__" in vars(base):
            for name, parameter in inspect.signature(base.__init__).parameters.items():  # type: ignore[misc]
                found.setdefault(name, parameter.default)
    return found
