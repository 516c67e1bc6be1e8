"""The keys of verl's trainers of supervised fine-tuning, under the meanings that the actor's keys have.

How the releases behind a key are written says :mod:`tuner.trainers.verl.keys`. The model that is trained
has the meanings of the actor's, so that one table of fields reads and writes all of them.
"""

#: Of ``verl.trainer.fsdp_sft_trainer``. Source: verl 0.4.1 to 0.7.0 ``trainer/fsdp_sft_trainer.py``.
SFT = {
    "gpus_per_node": "trainer.n_gpus_per_node",  # torchrun says how many there are
    "nodes": "trainer.nnodes",
    "batch.prompts": "data.train_batch_size",
    "batch.max_response_tokens": "data.max_length",
    "model.path": "model.partial_pretrain",
    "model.packed": "use_remove_padding",
    "model.gradient_checkpointing": "model.enable_gradient_checkpointing",
    "model.liger": "model.use_liger",
    "model.lora_rank": "model.lora_rank",
    "model.target_modules": "model.target_modules",
    "model.lora_adapter": "model.lora_adapter_path >=0.6.1",
    "actor.strategy": "model.strategy",
    "actor.micro_batch": "data.micro_batch_size_per_gpu",
    "actor.global_micro_batch": "data.micro_batch_size",  # read by copies that lack the other one, alone
    "actor.ulysses": "ulysses_sequence_parallel_size",
    "actor.fsdp.model_dtype": "model.fsdp_config.model_dtype",
    "actor.fsdp.cpu_offload": "model.fsdp_config.cpu_offload",
    "actor.fsdp.offload_params": "model.fsdp_config.offload_params",
    "actor.fsdp.wrap_policy.min_num_params": "model.fsdp_config.wrap_policy.min_num_params",
    "saving.frequency": "trainer.save_freq",
    "saving.most_kept": "trainer.max_ckpt_to_keep",
    "actor.saved": "trainer.checkpoint.save_contents >=0.5.0",
}

#: Of ``verl.trainer.sft_trainer`` and ``sft_trainer_ray``, beside the sections of model, engine and
#: optimizer, which are those of the model engines. Source: verl 0.6.0 to 0.9.1 ``trainer/sft_trainer.py``.
SFT_ENGINE = {
    "gpus_per_node": "trainer.n_gpus_per_node",  # read by sft_trainer_ray; else torchrun says how many
    "nodes": "trainer.nnodes",
    "batch.prompts": "data.train_batch_size",
    "batch.max_response_tokens": "data.max_length",
    "actor.strategy": "engine.strategy",
    "actor.dynamic": "data.use_dynamic_bsz",
    "actor.token_budget": "data.max_token_len_per_gpu",
    "actor.micro_batch": "data.micro_batch_size_per_gpu",
    "actor.ulysses": "engine.ulysses_sequence_parallel_size",
    "actor.torch_compile": "engine.use_torch_compile",
    "saving.frequency": "trainer.save_freq",
    "saving.most_kept": "trainer.max_ckpt_to_keep",
    "actor.saved": "checkpoint.save_contents",
    "actor.saves_in_background": "checkpoint.async_save",
    "actor.saves_adapters": "checkpoint.save_lora_only >=0.9.0",
}
