"""Configurations of published members of each family, as their config.json has them. Plain data.

Members of 1 to 3 billion weights; of families that have none, fewer layers of a larger one, with
its widths, experts and vocabulary. Keys that do not bear on shapes or speed are left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Config = dict[str, Any]

COMMON = {
    "hidden_act": "silu",
    "rms_norm_eps": 1e-5,
    "tie_word_embeddings": False,
    "max_position_embeddings": 4096,
}
TIED = {"tie_word_embeddings": True}


@dataclass(frozen=True, slots=True)
class Member:
    """`what` names the model. `layers`: of the published ones, where not all are made. `recipe`
    is of the matrices that have no type of their own. `embeds`: it is for vectors of prompts."""

    what: str
    config: Mapping[str, Any]
    layers: str = ""
    recipe: str = "q4_0"
    embeds: bool = False


def of(kind: str, **more: Any) -> Config:
    """A configuration has one epsilon: of another name than the common one, that is left out."""
    common = dict(COMMON)
    if {"layer_norm_eps", "norm_eps", "layer_norm_epsilon"} & more.keys():
        del common["rms_norm_eps"]
    return {**common, "model_type": kind, **more}


def sized(width: int, inner: int, layers: int, heads: int, key_heads: int, rows: int) -> Config:
    return {
        "hidden_size": width,
        "intermediate_size": inner,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": key_heads,
        "vocab_size": rows,
    }


def routed(count: int, used: int, width: int, **more: Any) -> Config:
    """Experts, by the keys that most have."""
    return {
        "num_experts": count,
        "num_experts_per_tok": used,
        "moe_intermediate_size": width,
        **more,
    }


# Of Qwen 3-Next and 3.5: every fourth layer has attention, in heads of 256 columns.
DELTA = {
    "head_dim": 256,
    "full_attention_interval": 4,
    "linear_num_key_heads": 16,
    "linear_num_value_heads": 32,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "linear_conv_kernel_dim": 4,
}


def deepseek(count: int, used: int, width: int, shared: int, **more: Any) -> Config:
    return {
        "n_routed_experts": count,
        "num_experts_per_tok": used,
        "moe_intermediate_size": width,
        "n_shared_experts": shared,
        "first_k_dense_replace": 1,
        "moe_layer_freq": 1,
        **more,
    }


# llama.cpp knows these two by their 27 layers: with fewer it wants a query in two products.
LATENT = {
    "kv_lora_rank": 512, "q_lora_rank": None, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128,
    "v_head_dim": 128, "n_group": 1, "topk_group": 1,
}  # fmt: skip
GELU = {"hidden_act": "gelu_pytorch_tanh", "hidden_activation": "gelu_pytorch_tanh"}


def kinds(layers: int, attention: tuple[int, ...], other: str) -> list[str]:
    return ["full_attention" if index in attention else other for index in range(layers)]


def lfm2(layers: int, attention: tuple[int, ...], inner: int) -> Config:
    return {
        "max_position_embeddings": 4096, "block_auto_adjust_ff_dim": False, "conv_L_cache": 3,
        "conv_bias": False, "norm_eps": 1e-5,
        "rope_theta": 1e6, "tie_embedding": True, "layer_types": kinds(layers, attention, "conv"),
        **sized(2048, inner, layers, 32, 8, 65536),
    }  # fmt: skip


MEMBERS: Mapping[str, Member] = {
    "llama": Member("Llama 3.2 1B", of("llama", **sized(2048, 8192, 16, 32, 8, 128256), **TIED)),
    "mistral": Member(
        "Mistral 7B v0.1",
        of("mistral", sliding_window=4096, **sized(4096, 14336, 6, 32, 8, 32000)),
        layers="6 of 32",
    ),
    "mixtral": Member(
        "Mixtral 8x7B",
        of(
            "mixtral", num_local_experts=8, num_experts_per_tok=2,
            **sized(4096, 14336, 2, 32, 8, 32000),
        ),
        layers="2 of 32",
    ),
    "qwen2": Member("Qwen 2.5 1.5B", of("qwen2", **sized(1536, 8960, 28, 12, 2, 151936), **TIED)),
    "qwen2_moe": Member(
        "Qwen 1.5 MoE A2.7B",
        of(
            "qwen2_moe", shared_expert_intermediate_size=5632, norm_topk_prob=False,
            **sized(2048, 5632, 4, 16, 16, 151936), **routed(60, 4, 1408),
        ),
        layers="4 of 24",
    ),
    "qwen3": Member(
        "Qwen 3 1.7B",
        of("qwen3", head_dim=128, **sized(2048, 6144, 28, 16, 8, 151936), **TIED),
    ),
    "qwen3_embedding": Member(
        "Qwen 3 Embedding 0.6B",
        of("qwen3", head_dim=128, **sized(1024, 3072, 28, 16, 8, 151669), **TIED),
        embeds=True,
    ),
    "qwen3_moe": Member(
        "Qwen 3 30B A3B",
        of(
            "qwen3_moe", head_dim=128, norm_topk_prob=True,
            **sized(2048, 6144, 4, 32, 4, 151936), **routed(128, 8, 768),
        ),
        layers="4 of 48",
    ),
    "qwen3_next": Member(
        "Qwen 3-Next 80B A3B with 128 of its 512 experts",
        of("qwen3_next", **DELTA, **sized(2048, 5632, 4, 16, 2, 151936),
           **routed(128, 10, 512, shared_expert_intermediate_size=512)),
        layers="4 of 48",
    ),
    "qwen35": Member(
        "Qwen 3.5, 24 layers of 2048 columns",
        of("qwen3_5_text", **DELTA | {"linear_num_value_heads": 16},
           **sized(2048, 6144, 24, 8, 2, 248320), **TIED),
    ),
    "gemma": Member(
        "Gemma 2B",
        of("gemma", head_dim=256, **sized(2048, 16384, 18, 8, 1, 256000), **TIED) | GELU,
    ),
    "gemma2": Member(
        "Gemma 2 2B",
        of("gemma2", head_dim=256, **sized(2304, 9216, 26, 8, 4, 256000), **TIED) | GELU,
    ),
    "gemma3": Member(
        "Gemma 3 1B",
        of(
            "gemma3_text", head_dim=256, query_pre_attn_scalar=256, sliding_window=512,
            **sized(1152, 6912, 26, 4, 1, 262144), **TIED,
        ) | GELU,
    ),
    "gemma4": Member(
        "Gemma 4 E2B",
        {
            "model_type": "gemma4_text", "head_dim": 256, "global_head_dim": 512,
            "sliding_window": 512, "num_kv_shared_layers": 20, "hidden_size_per_layer_input": 256,
            "vocab_size_per_layer_input": 262144, "use_double_wide_mlp": True,
            "final_logit_softcapping": 30.0, "rms_norm_eps": 1e-6,
            "hidden_activation": "gelu_pytorch_tanh", "max_position_embeddings": 4096,
            "layer_types": ["full_attention" if index % 5 == 4 else "sliding_attention"
                            for index in range(35)],
            **sized(1536, 6144, 35, 8, 1, 262144), **TIED,
        },
    ),
    "ernie4_5_moe": Member(
        "ERNIE 4.5 21B A3B",
        of("ernie4_5_moe", moe_num_experts=64, moe_k=6, moe_intermediate_size=1536,
           moe_num_shared_experts=2, moe_layer_start_index=1, use_bias=False,
           **sized(2560, 12288, 3, 20, 4, 103424), **TIED),
        layers="3 of 28",
    ),
    "exaone4": Member(
        "EXAONE 4.0 1.2B",
        of("exaone4", head_dim=64, sliding_window=None, **sized(2048, 4096, 30, 32, 8, 102400),
           **TIED),
    ),
    "hunyuan": Member(
        "Hunyuan 1.8B",
        of("hunyuan_v1_dense", head_dim=128, use_qk_norm=True, pad_token_id=0,
           **sized(2048, 6144, 32, 16, 4, 120818), **TIED),
    ),
    "ministral3": Member(
        "Ministral 3 3B",
        of("ministral3", head_dim=128,
           rope_parameters={
               "rope_type": "yarn", "rope_theta": 1e6, "factor": 16.0, "beta_fast": 32.0,
               "beta_slow": 1.0, "mscale": 1.0, "mscale_all_dim": 1.0,
               "original_max_position_embeddings": 16384, "llama_4_scaling_beta": 0.1,
           },
           **sized(3072, 9216, 26, 32, 8, 131072), **TIED),
    ),
    "seed_oss": Member(
        "Seed-OSS 36B",
        of("seed_oss", head_dim=128, attention_bias=True,
           **sized(5120, 27648, 3, 80, 8, 155136)),
        layers="3 of 64",
    ),
    "glm4_moe": Member(
        "GLM 4.5 Air with 32 of its 128 experts",
        of("glm4_moe", head_dim=128, attention_bias=True, partial_rotary_factor=0.5,
           norm_topk_prob=True, use_qk_norm=False,
           **sized(4096, 10944, 4, 96, 8, 151552), **deepseek(32, 8, 1408, 1)),
        layers="4 of 46",
    ),
    "minimax_m2": Member(
        "MiniMax M2 with 64 of its 256 experts",
        of("minimax_m2", head_dim=128, rotary_dim=64, num_local_experts=64, num_experts_per_tok=8,
           **sized(3072, 1536, 3, 48, 8, 200064)),
        layers="3 of 62",
    ),
    "glm4": Member(
        "GLM 4 9B 0414",
        of("glm4", head_dim=128, attention_bias=True, partial_rotary_factor=0.5,
           **sized(4096, 13696, 5, 32, 2, 151552)),
        layers="5 of 40",
    ),
    "gpt_oss": Member(
        "GPT-OSS 20B, experts in MXFP4, all else in Q8_0",
        of(
            "gpt_oss", head_dim=64, num_local_experts=32, num_experts_per_tok=4,
            sliding_window=128, **sized(2880, 2880, 2, 64, 8, 201088),
        ),
        layers="2 of 24",
        recipe="q8_0",
    ),
    "deepseek": Member(
        "DeepSeek MoE 16B",
        of(
            "deepseek", norm_topk_prob=False, scoring_func="softmax",
            **sized(2048, 10944, 4, 16, 16, 102400), **deepseek(64, 6, 1408, 2),
        ),
        layers="4 of 28",
    ),
    "deepseek_v2": Member(
        "DeepSeek V2 Lite with 16 of its 64 experts",
        of(
            "deepseek_v2", norm_topk_prob=False, topk_method="greedy", **LATENT,
            **sized(2048, 10944, 27, 16, 16, 102400), **deepseek(16, 6, 1408, 2),
        ),
    ),
    "deepseek_v3": Member(
        "Moonlight 16B A3B, of DeepSeek V3's architecture, with 16 of its 64 experts",
        of(
            "deepseek_v3", norm_topk_prob=True, routed_scaling_factor=2.446, **LATENT,
            **sized(2048, 11264, 27, 16, 16, 163840), **deepseek(16, 6, 1408, 2),
        ),
    ),
    "granite": Member(
        "Granite 3.1 2B", of("granite", **sized(2048, 8192, 40, 32, 8, 49152), **TIED)
    ),
    "granitemoe": Member(
        "Granite 3.1 1B A400M",
        of(
            "granitemoe", num_local_experts=32, num_experts_per_tok=8,
            **sized(1024, 512, 24, 16, 8, 49152), **TIED,
        ),
    ),
    "granitehybrid": Member(
        "Granite 4.0 H 1B",
        of("granitemoehybrid", position_embedding_type="nope", num_local_experts=0,
           num_experts_per_tok=0, shared_intermediate_size=4096, mamba_n_heads=48, mamba_d_head=64,
           mamba_d_state=128, mamba_n_groups=1, mamba_d_conv=4, mamba_expand=2,
           layer_types=["attention" if index % 10 == 5 else "mamba" for index in range(40)],
           **sized(1536, 4096, 40, 12, 4, 100352), **TIED),
    ),
    "olmo2": Member("OLMo 2 1B", of("olmo2", **sized(2048, 8192, 16, 16, 16, 100352))),
    "olmo3": Member(
        "OLMo 3 7B",
        of("olmo3", sliding_window=4096, **sized(4096, 11008, 8, 32, 32, 100278)),
        layers="8 of 32",
    ),
    "olmoe": Member(
        "OLMoE 1B-7B",
        of(
            "olmoe", num_experts=64, num_experts_per_tok=8, **sized(2048, 1024, 5, 16, 16, 50304),
        ),
        layers="5 of 16",
    ),
    "smollm3": Member(
        "SmolLM 3 3B", of("smollm3", **sized(2048, 11008, 36, 16, 4, 128256), **TIED)
    ),
    "stablelm": Member(
        "StableLM 2 1.6B",
        of(
            "stablelm", partial_rotary_factor=0.25, use_qkv_bias=True, layer_norm_eps=1e-5,
            **sized(2048, 5632, 24, 32, 32, 100352),
        ),
    ),
    "phi3": Member(
        "Phi 3 mini",
        of("phi3", pad_token_id=0, **sized(3072, 8192, 16, 32, 32, 32064)),
        layers="16 of 32",
    ),
    "cohere": Member(
        "Aya 23 8B",
        of("cohere", layer_norm_eps=1e-5, **sized(4096, 14336, 4, 32, 8, 256000), **TIED),
        layers="4 of 32",
    ),
    "cohere2": Member(
        "Command R7B",
        of(
            "cohere2", layer_norm_eps=1e-5, sliding_window=4096, head_dim=128,
            **sized(4096, 14336, 4, 32, 8, 256000), **TIED,
        ),
        layers="4 of 32",
    ),
    "gpt2": Member(
        "GPT-2 XL",
        {
            "model_type": "gpt2", "n_embd": 1600, "n_layer": 48, "n_head": 25, "n_positions": 1024,
            "vocab_size": 50257, "layer_norm_epsilon": 1e-5, "activation_function": "gelu_new",
            **TIED,
        },
    ),
    "lfm2": Member("LFM2 1.2B", {"model_type": "lfm2", **lfm2(16, (2, 5, 8, 10, 12, 14), 8192)}),
    "lfm2_moe": Member(
        "LFM2 8B A1B",
        {
            "model_type": "lfm2_moe", "num_dense_layers": 2, "norm_topk_prob": True,
            **lfm2(8, (2, 6), 7168), **routed(32, 4, 1792),
        },
        layers="8 of 24",
    ),
    "mamba": Member(
        "Mamba 1.4B",
        {
            "model_type": "mamba", "hidden_size": 2048, "num_hidden_layers": 48, "state_size": 16,
            "vocab_size": 50280, "expand": 2, "conv_kernel": 4, "time_step_rank": 128,
            "layer_norm_epsilon": 1e-5, "hidden_act": "silu", **TIED,
        },
    ),
    "falcon_mamba": Member(
        "Falcon Mamba 7B",
        {
            "model_type": "falcon_mamba", "hidden_size": 4096, "num_hidden_layers": 16,
            "state_size": 16, "vocab_size": 65024, "intermediate_size": 8192, "expand": 2,
            "conv_kernel": 4, "time_step_rank": 256, "layer_norm_epsilon": 1e-5,
            "mixer_rms_eps": 1e-6, "hidden_act": "silu", "tie_word_embeddings": False,
        },
        layers="16 of 64",
    ),
    "mamba2": Member(
        "Mamba 2 1.3B",
        {
            "model_type": "mamba2", "hidden_size": 2048, "num_hidden_layers": 48,
            "state_size": 128, "vocab_size": 50280, "expand": 2, "conv_kernel": 4,
            "num_heads": 64, "head_dim": 64, "n_groups": 1, "chunk_size": 256,
            "layer_norm_epsilon": 1e-5, "hidden_act": "silu", "rms_norm": True, **TIED,
        },
    ),
    "falcon_h1": Member(
        "Falcon-H1 1.5B",
        of(
            "falcon_h1", head_dim=128, rope_theta=1e11, mamba_d_ssm=3072, mamba_n_heads=48,
            mamba_d_head=64, mamba_d_state=256, mamba_n_groups=1, mamba_d_conv=4,
            mamba_chunk_size=256, mamba_rms_norm=False, mamba_norm_before_gate=False,
            mamba_conv_bias=True, **sized(2048, 4096, 24, 8, 2, 65537),
        ),
    ),
    "jamba": Member(
        "Jamba v0.1",
        of(
            "jamba", num_experts=16, num_experts_per_tok=2, attn_layer_period=8,
            attn_layer_offset=2, expert_layer_period=2, expert_layer_offset=1, pad_token_id=0,
            mamba_d_state=16, mamba_d_conv=4, mamba_expand=2, mamba_dt_rank=256,
            mamba_conv_bias=True, mamba_proj_bias=False, use_mamba_kernels=False,
            **sized(4096, 14336, 3, 32, 8, 65536),
        ),
        layers="3 of 32",
    ),
    "rwkv4": Member(
        "RWKV-4 Pile 1.5B",
        {
            "model_type": "rwkv", "hidden_size": 2048, "attention_hidden_size": 2048,
            "intermediate_size": 8192, "num_hidden_layers": 24, "vocab_size": 50277,
            "context_length": 1024, "layer_norm_epsilon": 1e-5, "rescale_every": 0,
            "tie_word_embeddings": False,
        },
    ),
    "rwkv7": Member(
        "RWKV-7 World 1.5B",
        {
            "model_type": "rwkv7", "hidden_size": 2048, "head_size": 64, "num_heads": 32,
            "num_hidden_layers": 24, "intermediate_size": 8192, "vocab_size": 65536,
            "decay_low_rank_dim": 96, "a_low_rank_dim": 96, "v_low_rank_dim": 64,
            "gate_low_rank_dim": 256, "layer_norm_eps": 1e-5, "group_norm_eps": 64e-5,
            "hidden_act": "sqrelu", "tie_word_embeddings": False,
        },
    ),
}  # fmt: skip
