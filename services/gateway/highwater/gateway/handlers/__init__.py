"""One module per Kafka API: `handle(context, request) -> response`, called by `requests.dispatch`."""
