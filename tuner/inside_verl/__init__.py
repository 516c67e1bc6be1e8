"""What a running verl imports: importing this package puts our head, the skip and the record in place.

In a verl job: ``actor_rollout_ref.model.external_lib=tuner.inside_verl``, or the environment variable
``VERL_USE_EXTERNAL_MODULES=tuner.inside_verl``. Every worker then says in one line what is in place.
"""

from tuner.inside_verl.installing import install

install()
