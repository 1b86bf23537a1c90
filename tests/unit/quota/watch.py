"""A watch whose images the test sets."""


class FakeWatch:
    def __init__(self, image=None):
        self.image = image
        self.subscribers = []

    def subscribe(self, subscriber):
        self.subscribers.append(subscriber)
        if self.image is not None:
            subscriber(self.image, None)
        return lambda: self.subscribers.remove(subscriber)

    def publish(self, image):
        self.image = image
        for subscriber in self.subscribers:
            subscriber(image, None)
