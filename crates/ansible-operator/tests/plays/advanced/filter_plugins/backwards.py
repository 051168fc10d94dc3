"""A filter of the project's own."""


class FilterModule:
    def filters(self):
        return {"backwards": lambda text: text[::-1]}
