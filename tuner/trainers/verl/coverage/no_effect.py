"""Keys that change neither memory nor time, by the reason why."""

from tuner.language import N_
from tuner.trainers.omission import IdleKeys
from tuner.trainers.verl.releases import ENGINE_PREVIEW

_ROLES = "{actor_rollout_ref,critic}.**"
_ACTOR = "actor_rollout_ref.actor"
_REFERENCE = "actor_rollout_ref.ref"
_ROLLOUT = "actor_rollout_ref.rollout"
#: Every name below ``policy_loss`` but that of the loss, which is read: copies of verl have their own.
_BESIDE_LOSS_MODE = ",".join(f"{letter}*" for letter in "abcdefghijkmnopqrstuvwxyz")
#: Keys of ``model.override_config`` that decide how long a sequence may be.
LIMITS_OF_POSITIONS = (
    "{actor_rollout_ref,critic}.model.override_config.**.{max_position_embeddings,rope_*}.**"
)


NO_EFFECT: tuple[IdleKeys, ...] = (
    IdleKeys(
        name=N_("classes"),
        reason=N_("Names the class that checks a section."),
        patterns=("**._target_",),
    ),
    IdleKeys(
        name=N_("data"),
        reason=N_("Says where prompts lie and how they are read; sizes are those of lengths and batches."),
        patterns=(
            "data.{train_files,val_files,prompt_key,reward_fn_key,tokenizer,truncation,shuffle,seed,use_shm,"
            "trust_remote_code,validation_shuffle,train_max_samples,val_max_samples,val_batch_size,"
            "dataloader_num_workers,filter_overlong_*,return_raw_*,return_full_prompt,"
            "apply_chat_template_kwargs}.**",
            "data.{custom_cls,datagen,sampler,continuous_token}.**",
        ),
    ),
    IdleKeys(
        name=N_("the filter's measure"),
        reason=N_("Decides which groups are kept; --kept-groups says how many are."),
        patterns=("algorithm.filter_groups.metric",),
    ),
    IdleKeys(
        name=N_("model files"),
        reason=N_(
            "Says where weights, tokenizer and code lie; the sizes are those of the model's config.json."
        ),
        patterns=(
            "{actor_rollout_ref,critic}.model.{trust_remote_code,tokenizer_path,custom_chat_template}",
            "reward_model.model.{trust_remote_code,input_tokenizer}",
            "{actor_rollout_ref,critic}.model.lora.adapter_path",
            "critic.model.lora_adapter_path",
            "actor_rollout_ref.model.lora_adapter_path >=0.8.0",
            f"{_ROLES}.{{load_weight,dist_checkpointing_*}}",
            f"{_REFERENCE}.megatron.use_dist_checkpointing",
            f"{_ACTOR}.megatron.use_dist_checkpointing <0.5.0",
            "critic.megatron.use_dist_checkpointing <0.5.0",
            "reward_model.**.{load_weight,dist_checkpointing_*}",
            f"{_ROLLOUT}.layer_name_map.*",
        ),
    ),
    IdleKeys(
        name=N_("numbers of the optimizer"),
        reason=N_("Enters the update as a number; tensors and kernels are the same for every value."),
        patterns=(
            f"{_ROLES}.optim.{{betas,clip_grad,lr,lr_*,min_lr,min_lr_ratio,num_cycles,total_training_steps,"
            "use_checkpoint_opt_param_scheduler,warmup_style,weight_decay,weight_decay_*,zero_indexed_step}",
            f"{_ROLES}.grad_clip",
        ),
    ),
    IdleKeys(
        name=N_("numbers of the loss"),
        reason=N_("Enters advantages or the loss, which take a few numbers per token whatever they compute."),
        patterns=(
            f"{_ACTOR}.{{clip_ratio,clip_ratio_*,kl_loss_type,tau_neg,tau_pos}}",
            f"{_ACTOR}.policy_loss.{{{_BESIDE_LOSS_MODE}}}",
            f"{_ACTOR}.use_kl_loss <0.4.0",  # there is a reference with or without it
            f"{_ACTOR}.loss_scale_factor",
            "critic.{loss_agg_mode,loss_scale_factor}",
            "critic.cliprange_value",
            "critic.kl_ctrl.*",
            "algorithm.{gamma,lam,kl_penalty,norm_adv_by_std_in_grpo,use_pf_ppo,rollout_is,rollout_is_*}",
            "algorithm.kl_ctrl.{type,horizon,target_kl}",
            "algorithm.kl_ctrl.kl_coef <0.4.0",
            "algorithm.pf_ppo.*",
            "algorithm.rollout_correction.{loss_type,rollout_*,use_policy_gradient}",
            "distillation.distillation_loss.{clip_ratio,clip_ratio_*,distillation_loss_coef,"
            "log_prob_min_clamp,loss_max_clamp,policy_loss_mode}",
        ),
    ),
    IdleKeys(
        name=N_("numbers of adapters"),
        reason=N_("Scales or initializes adapters of the same size."),
        patterns=(
            "{actor_rollout_ref,critic}.model.lora_alpha",
            "{actor_rollout_ref,critic}.model.lora.{alpha,lora_A_init_method,lora_B_init_method}",
            "critic.model.lora.merge",  # a critic is not sent to the rollout engine
        ),
    ),
    IdleKeys(
        name=N_("seeds and order"),
        reason=N_("Decides which numbers are drawn and in which order samples come, not how many."),
        patterns=(
            "{actor_rollout_ref,critic,reward_model,reward}.**.{seed,data_loader_seed,shuffle,scheduling_policy}",
            "trainer.v1.sampler.**",
        ),
    ),
    IdleKeys(
        name=N_("sampling"),
        reason=N_("Decides which token is drawn, out of buffers as large as the vocabulary in any case."),
        patterns=(
            f"{_ROLLOUT}.{{top_k,top_p,do_sample,ignore_eos,use_fire_sampling}}",
            f"{_ROLLOUT}.val_kwargs.*",
            "reward.reward_model.rollout.{top_k,top_p,do_sample,ignore_eos,temperature}",
            "distillation.teacher_models.*.inference.temperature",
        ),
    ),
    IdleKeys(
        name=N_("steps, validation and resuming"),
        reason=N_(
            "Decides how many steps there are and what happens between them; the answer is of one step."
        ),
        patterns=(
            "trainer.{total_epochs,total_training_steps,test_freq,val_before_train,critic_warmup,"
            "resume_mode,resume_from_path,del_local_ckpt_after_load,"
            "max_critic_ckpt_to_keep,esi_redundant_time,checkpoint_callback_class,default_local_dir,"
            "default_hdfs_dir}",
            "{actor_rollout_ref,critic}.**.checkpoint.{load_contents,mbridge_config,strict}.**",
        ),
    ),
    IdleKeys(
        name=N_("logs"),
        reason=N_("Names the run or writes what it did to files and servers."),
        patterns=(
            "trainer.{project_name,experiment_name,logger,log_val_generations,rollout_data_dir,"
            "validation_data_dir,val_generations_to_log_to_wandb}",
            f"{_ROLLOUT}.{{trace,prometheus}}.**",
            f"{_ROLLOUT}.moe_load_balance_metrics_interval",
            f"{_ROLES}.veomni.moe_load_balance_monitor_interval",
            "{reward,reward_model,distillation}.**.disable_log_stats",
            "transfer_queue.metrics.**",
        ),
    ),
    IdleKeys(
        name=N_("Ray and timeouts"),
        reason=N_("Says how processes start and how long they wait for each other."),
        patterns=(
            "{ray_init,ray_kwargs}.**",
            "{actor_rollout_ref,critic,reward_model}.nccl_timeout",
            "trainer.ray_wait_register_center_timeout",
        ),
    ),
    IdleKeys(
        name=N_("rewards on CPUs"),
        reason=N_("Chooses how the controller calls a function for each response, which takes no GPU."),
        patterns=(
            "reward_model.reward_manager",
            "**.reward_manager.name",
            "**.custom_reward_function.name",
            "**.sandbox_fusion.{max_concurrent,memory_limit_mb}",
            "{reward,reward_model}.num_workers",
            "reward_model.launch_reward_fn_async",
            "distillation.teacher_models.*.key",
            "distillation.teacher_key",
        ),
    ),
    IdleKeys(
        name=N_("tokens of the engine"),
        reason=N_("Prompts are handed to the engine as tokens either way."),
        patterns=("{actor_rollout_ref,reward,reward_model,distillation}.**.skip_tokenizer_init",),
    ),
    IdleKeys(
        name=N_("set by verl itself"),
        reason=N_("verl writes its own value over it, from the role or from a key of another section."),
        patterns=(
            f"{_ROLES}.{{fsdp_config,fsdp,megatron}}.forward_only",
            f"{_ROLES}.{{fsdp_config,fsdp}}.strategy <0.7.0",
            f"{_ROLES}.{{fsdp_config,fsdp}}.strategy >=0.8.0",
            f"{_ROLES}.veomni.{{forward_only,strategy}}",
            f"{_ACTOR}.{{use_fused_kernels,use_remove_padding}}",
            f"{_ROLLOUT}.{{mtp,qat}}",
            f"{_ROLES}.rollout_n",
            f"{_ROLES}.megatron.use_remove_padding >={ENGINE_PREVIEW}",
            "{actor_rollout_ref,reward_model}.rollout.max_model_len >=0.7.0 <0.7.1",
            "trainer.v1.sync.**",
        ),
    ),
    IdleKeys(
        name=N_("limits of positions"),
        reason=N_("Decides how long a sequence may be, which a check compares; no size follows from it."),
        patterns=(LIMITS_OF_POSITIONS,),
    ),
    IdleKeys(
        name=N_("what Megatron does anyway"),
        reason=N_("Asks for kernels that Megatron takes by itself, or for numbers of the router."),
        patterns=(
            f"{_ROLES}.override_transformer_config.{{use_flash_attn,masked_softmax_fusion,persist_layer_norm,"
            "moe_router_*}",
        ),
    ),
    IdleKeys(
        name=N_("FSDP's parameters"),
        reason=N_("Says under which names a flat parameter is seen; the flat tensors are the same."),
        patterns=(f"{_ROLES}.{{fsdp_config,fsdp}}.use_orig_params",),
    ),
    IdleKeys(
        name=N_("how VeOmni loads and saves"),
        reason=N_("Says where weights are made and by which files they are read; the shards are the same."),
        patterns=(
            f"{_ROLES}.veomni.{{init_device,ckpt_manager,load_checkpoint_path,force_use_huggingface,"
            "enable_reentrant}",
        ),
    ),
    IdleKeys(
        name=N_("the reference's engine"),
        reason=N_("A reference has no optimizer, no gradients and no entropy, and FSDP always offloads it."),
        patterns=(
            f"{_REFERENCE}.{{entropy_checkpointing,entropy_from_logits_*,use_torch_compile}}",
            f"{_REFERENCE}.fsdp_config.{{entropy_*,use_torch_compile}} >=0.7.0",
            f"{_REFERENCE}.fsdp_config.{{param_offload,optimizer_offload,offload_policy,"
            "use_no_sync_for_gradient_accumulation}",
            f"{_REFERENCE}.veomni.{{optimizer_offload,entropy_*,use_torch_compile,enable_async_activation_offload,"
            "activation_*}",
            f"{_REFERENCE}.megatron.{{entropy_*,grad_offload,optimizer_offload,use_distributed_optimizer,"
            "dist_ckpt_*,distrib_optim_*}",
        ),
    ),
    IdleKeys(
        name=N_("routers that replay nothing"),
        reason=N_("Only the actor's own passes record or replay experts."),
        patterns=(f"{_REFERENCE}.**.router_replay.mode", "critic.{megatron,veomni}.router_replay.mode"),
    ),
    IdleKeys(
        name=N_("the reference as the actor"),
        reason=N_("The workers of these releases build the reference from the actor's key."),
        patterns=(
            f"{_REFERENCE}.{{strategy,ulysses_sequence_parallel_size}} <0.7.0",
            f"{_REFERENCE}.fsdp_config.{{fsdp_size,forward_prefetch}} <0.6.0",
            f"{_REFERENCE}.fsdp_config.fsdp_size >=0.6.0 <0.7.0",
            f"{_REFERENCE}.megatron.{{tensor_*,pipeline_*,virtual_*,context_*,expert_*,dtype,use_mbridge}} "
            ">=0.4.0 <0.7.0",
            f"{_REFERENCE}.megatron.use_remove_padding <{ENGINE_PREVIEW}",
        ),
    ),
    IdleKeys(
        name=N_("sequence parallelism"),
        reason=N_("These releases turn it on wherever there is tensor parallelism."),
        patterns=(f"{_ROLES}.megatron.sequence_parallel <0.7.0",),
    ),
    IdleKeys(
        name=N_("the critic on the actor's grid"),
        reason=N_("Actor and critic share a process and its Megatron groups, made once for the actor."),
        patterns=("critic.megatron.{tensor_*,pipeline_*,virtual_*,context_*,expert_*} >=0.4.0 <0.7.0",),
    ),
    IdleKeys(
        name=N_("the same as another key"),
        reason=N_("verl demands one value, or that of another key; a check compares them."),
        patterns=(
            "actor_rollout_ref.hybrid_engine <0.9.0",
            f"{_ROLLOUT}.log_prob_use_dynamic_bsz >=0.8.0",
        ),
    ),
    IdleKeys(
        name=N_("GPUs of other trainers"),
        reason=N_("Only trainers that generate on other GPUs than they train on read it."),
        patterns=(f"{_ROLLOUT}.{{n_gpus_per_node,nnodes}} <0.9.0",),
    ),
    IdleKeys(
        name=N_("a critic under VeOmni"),
        reason=N_("The release has no critic for this engine."),
        patterns=(
            "critic.veomni.{enable_fsdp_offload,enable_full_shard,expert_parallel_size,forward_prefetch,"
            "fsdp_size,mixed_precision,moe_implementation,optimizer_offload,param_offload,"
            "ulysses_parallel_size} <0.8.0",
        ),
    ),
    IdleKeys(
        name=N_("the critic's head"),
        reason=N_("A critic's head gives one number per token: no logits, no entropy, nothing to fuse."),
        patterns=(
            "critic.model.{use_fused_kernels,fused_kernel_options}.**",
            "critic.model.fsdp_config.{entropy_*,use_torch_compile} >=0.7.0",
            "critic.{fsdp,veomni}.{entropy_*,use_torch_compile}",
            "critic.megatron.entropy_*",
        ),
    ),
    IdleKeys(
        name=N_("read by nobody"),
        reason=N_("Stands in the configuration of these releases, and no code of theirs reads it."),
        patterns=(
            f"{_ACTOR}.{{use_torch_compile,use_prefix_grouper,freeze_vision_tower}} >={ENGINE_PREVIEW}",
            f"{_ACTOR}.{{entropy_checkpointing,entropy_from_logits_with_chunking}} >={ENGINE_PREVIEW} <0.9.0",
            f"{_ROLES}.{{fsdp_config,fsdp}}.dtype >={ENGINE_PREVIEW}",
            f"{_ROLES}.fsdp_config.{{entropy_*,ulysses_sequence_parallel_size,use_torch_compile}} <0.7.0",
            "critic.model.fsdp_config.dtype <0.8.0",
            f"{_ACTOR}.megatron.grad_offload",
            "critic.megatron.grad_offload",
            "{actor_rollout_ref,critic}.model.tiled_mlp.* >=" + ENGINE_PREVIEW,
            f"{_ROLES}.router_replay.{{record_file,replay_file}}",
            f"{_ACTOR}.router_replay.mode >={ENGINE_PREVIEW}",
            f"{_ACTOR}.ppo_micro_batch_size >={ENGINE_PREVIEW}",
            f"{{actor_rollout_ref,critic}}.**.log_prob_micro_batch_size >={ENGINE_PREVIEW}",
            "critic.{use_dynamic_bsz,ppo_micro_batch_size,ppo_micro_batch_size_per_gpu,forward_*,"
            "ulysses_sequence_parallel_size} >=0.8.0",
            f"{_ROLLOUT}.max_num_seqs <0.6.0",
            f"{_ROLLOUT}.multi_stage_wake_up >=0.6.0",
            f"{_ROLLOUT}.over_sample_rate >=0.7.0",
        ),
    ),
)
