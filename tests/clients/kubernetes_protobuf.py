"""Kubernetes objects in protobuf, by code that shares nothing with the server: Google's runtime, and the descriptors of
Kubernetes' own .proto files, which a kubectl up to 1.34 carries (compressed, as its generated code registers them).
"""

import base64
import datetime
import json
import re
import zlib

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, unknown_fields
from google.protobuf.message import DecodeError

MAGIC = b"k8s\0"
META = "k8s.io.apimachinery.pkg.apis.meta.v1."
RUNTIME = "k8s.io.apimachinery.pkg.runtime."
# Kinds that are of no group.
OF_META = {"APIGroup", "APIGroupList", "APIResourceList", "APIVersions", "DeleteOptions", "Status"}
# Groups whose package is not named by their first label.
PACKAGES = {"": "core", "internal.apiserver.k8s.io": "apiserverinternal"}
# Fields of Go structs that are inlined: JSON has no level for them. By the names of message and field.
INLINED = {
    ("ConfigMapEnvSource", "localObjectReference"),
    ("ConfigMapKeySelector", "localObjectReference"),
    ("ConfigMapProjection", "localObjectReference"),
    ("ConfigMapVolumeSource", "localObjectReference"),
    ("DeviceAllocationConfiguration", "deviceConfiguration"),
    ("DeviceClaimConfiguration", "deviceConfiguration"),
    ("DeviceClassConfiguration", "deviceConfiguration"),
    ("EphemeralContainer", "ephemeralContainerCommon"),
    ("IngressRule", "ingressRuleValue"),
    ("NamedRuleWithOperations", "ruleWithOperations"),
    ("PersistentVolumeSpec", "persistentVolumeSource"),
    ("Probe", "handler"),
    ("RuleWithOperations", "rule"),
    ("SecretEnvSource", "localObjectReference"),
    ("SecretKeySelector", "localObjectReference"),
    ("SecretProjection", "localObjectReference"),
    ("Volume", "volumeSource"),
}
# Fields with another name in JSON.
RENAMED = {"Webhooks": "webhooks", "Expression": "expression", "Name": "name"}
# Members that decoding fills in: protobuf has no field for them.
FILLED_IN = {"volumeClaimTemplates": {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}}


class Types:
    """The messages of every package."""

    def __init__(self, kubectl):
        with open(kubectl, "rb") as file:
            data = file.read()
        files = {}
        # A gzip member as Go writes it at its best compression.
        for found in re.finditer(re.escape(bytes.fromhex("1f8b08000000000002ff")), data):
            inflate = zlib.decompressobj(31)
            try:
                text = inflate.decompress(data[found.start() : found.start() + (1 << 20)])
                proto = descriptor_pb2.FileDescriptorProto.FromString(text)
            except (zlib.error, DecodeError):
                continue
            if inflate.eof and proto.name.startswith("k8s.io/"):
                # The others only declare options.
                wanted = [name for name in proto.dependency if name.startswith("k8s.io/")]
                del proto.dependency[:]
                proto.dependency.extend(wanted)
                files[proto.name] = proto
        assert len(files) > 50, f"{kubectl} has the descriptors of {len(files)} files"
        self.pool = descriptor_pool.DescriptorPool()
        added = set()

        def add(name):
            if name not in added:
                added.add(name)
                for other in files[name].dependency:
                    add(other)
                self.pool.Add(files[name])

        for name in files:
            add(name)

    def named(self, name):
        return message_factory.GetMessageClass(self.pool.FindMessageTypeByName(name))

    def of(self, api_version, kind):
        """The message of a kind; KeyError without one."""
        group, _, version = api_version.rpartition("/")
        if group == "meta.k8s.io" or kind in OF_META:
            return self.named(META + kind)
        package = PACKAGES.get(group, group.split(".")[0])
        return self.named(f"k8s.io.api.{package}.{version}.{kind}")

    def has(self, api_version, kind):
        try:
            self.of(api_version, kind)
        except KeyError:
            return False
        return True

    def decode(self, body):
        """An object, a list or a Status in its envelope: apiVersion, kind, message."""
        assert body.startswith(MAGIC), f"no protobuf: {body[:80]}"
        unknown = self.named(RUNTIME + "Unknown").FromString(body[len(MAGIC) :])
        assert unknown.HasField("contentType") and not unknown.contentType and not unknown.contentEncoding, unknown
        of = unknown.typeMeta
        return of.apiVersion, of.kind, self.of(of.apiVersion, of.kind).FromString(unknown.raw)

    def encode(self, api_version, kind, message):
        unknown = self.named(RUNTIME + "Unknown")()
        unknown.typeMeta.apiVersion, unknown.typeMeta.kind = api_version, kind
        unknown.raw = message.SerializeToString(deterministic=True)
        unknown.contentType = unknown.contentEncoding = ""
        return MAGIC + unknown.SerializeToString()


def time(message, digits=0):
    moment = datetime.datetime.fromtimestamp(message.seconds, datetime.timezone.utc)
    fraction = f".{message.nanos:09d}"[: digits + 1] if digits else ""
    return moment.strftime("%Y-%m-%dT%H:%M:%S") + fraction + "Z"


def text_of(message):
    """What JSON has for the messages that are no objects there; None for others."""
    name = message.DESCRIPTOR.full_name
    if name == META + "Time":
        return time(message)
    if name == META + "MicroTime":
        return time(message, 6)
    if name == "k8s.io.apimachinery.pkg.api.resource.Quantity":
        return message.string
    if name == "k8s.io.apimachinery.pkg.util.intstr.IntOrString":
        return message.strVal if message.type else message.intVal
    if name == META + "FieldsV1":
        return json.loads(message.Raw)
    if name == RUNTIME + "RawExtension":
        return json.loads(message.raw)
    if name.endswith((".ExtraValue", ".Verbs")):
        return list(message.items)
    return None


def is_zero(value):
    if hasattr(value, "DESCRIPTOR"):
        fields = value.ListFields()
        return all(is_zero(inner) for _, inner in fields)
    return not value


def differences(message, shown, path=""):
    """How a message and the JSON of the same object differ.

    A member of the JSON must be there with the same value. A field without a member must be zero: Go leaves such members
    out of JSON, and writes them in protobuf.
    """
    text = text_of(message)
    if text is not None:
        return [] if text == shown else [f"{path}: {text!r} in protobuf, {shown!r} in JSON"]
    if not isinstance(shown, dict):
        return [f"{path}: an object in protobuf, {shown!r} in JSON"]
    members, found = dict(shown), []
    _members(message, members, path, found)
    found += [f"{path}.{name}: {value!r} in JSON only" for name, value in members.items() if value is not None]
    return found


def _members(message, members, path, found):
    """Takes the members of a message out of those of an object."""
    name = message.DESCRIPTOR.name
    strange = [str(field.field_number) for field in unknown_fields.UnknownFieldSet(message)]
    if strange:
        found.append(f"{path}: fields without a name: {', '.join(strange)}")
    for field in message.DESCRIPTOR.fields:
        value = getattr(message, field.name)
        is_there = bool(value) if field.is_repeated else message.HasField(field.name)
        if (name, field.name) in INLINED:
            if is_there:
                _members(value, members, path, found)
            continue
        member = RENAMED.get(field.name, field.name)
        here = f"{path}.{member}"
        shown = members.pop(member, None)
        if shown is None:
            if is_there and not is_zero(value):
                found.append(f"{here}: in protobuf only")
        elif not is_there:
            if shown != [] and shown != {}:
                found.append(f"{here}: {shown!r} in JSON only")
        elif not field.is_repeated:
            found += _same(value, shown, here)
        elif hasattr(value, "items"):
            if not isinstance(shown, dict) or set(value) != set(shown):
                found.append(f"{here}: keys {sorted(value)} in protobuf, {shown!r} in JSON")
            else:
                for key in shown:
                    found += _same(value[key], shown[key], f"{here}[{key!r}]")
        elif not isinstance(shown, list) or len(value) != len(shown):
            found.append(f"{here}: {len(value)} in protobuf, {shown!r} in JSON")
        else:
            for number, (one, other) in enumerate(zip(value, shown)):
                filled = FILLED_IN.get(member, {})
                if filled:
                    assert filled.items() <= other.items(), f"{here}: {other}"
                    other = {name: other[name] for name in other if name not in filled}
                found += _same(one, other, f"{here}[{number}]")


def _same(value, shown, path):
    if hasattr(value, "DESCRIPTOR"):
        return differences(value, shown, path)
    if isinstance(value, bytes):
        value = base64.standard_b64encode(value).decode()
    is_same = type(value) is type(shown) and value == shown
    return [] if is_same else [f"{path}: {value!r} in protobuf, {shown!r} in JSON"]
