"""Which layout a job should have: settings of it that are legal and fit, searched and priced by the model.

A space is fields of the workload times values. A setting is judged by the memory and time model that judge
the job as it is, and what is shown is read back by the trainer from the overrides that bring it about.
"""
