"""specdeck: one terminal screen to launch, watch and tune an SGLang server that decodes speculatively."""

__version__ = "0.1.0"
