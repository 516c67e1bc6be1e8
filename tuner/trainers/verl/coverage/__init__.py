"""Every key of verl by what the estimate makes of it.

A key is modelled where reading a workload looks at it, which :mod:`tuner.trainers.verl.keys` knows by
itself. Of all others, ``no_effect`` says why they change neither memory nor time, and ``not_modelled``
what is missing from the answer once they are used.
"""
