"""The model. Knows neither training nor HTTP; importing it does no work.

Look:   environment (this machine), bundle and runs (what is on disk), config (a model's sizes)
Listen: audio -> voice                      a reference recording becomes latents
Speak:  text -> gpt -> synthesis            text becomes codes, latents, a waveform
Apart:  worker                              the same, in a process that may die
"""
