"""What schemathesis does not know by itself: how a part of an upload is sent."""

import schemathesis


@schemathesis.serializer("application/offset+octet-stream")
def part(ctx, value):
    return value if isinstance(value, bytes) else str(value).encode()
