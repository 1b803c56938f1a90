"""`python -m peers`: PopMQ, Redis Streams, NATS JetStream and RabbitMQ in turns."""

import sys

from peers.command import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
