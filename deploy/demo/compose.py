class Compose:
    pass
