#!/bin/sh
# One kubectl, unchanged, against a server: every operation that it has for objects.
#
#   kubectl.sh KUBECTL URL [OPERATION]
#
# Without an operation all are run, each in a process, a namespace and a time limit of its own, and each prints a line:
# its name, a tab, and `ok` or `FAIL`, a tab and the reason. The server must serve example.com/v1 widgets. HOME is where kubectl
# keeps its caches: let it be an empty folder. An operation is a label of `run` below, on a line of its own.
set -eu

kubectl=$1 url=$2 limit=30

k() { "$kubectl" --server "$url" --namespace "$ns" "$@" </dev/null; }
fail() { echo "$*" >&2; exit 1; }
is() { [ "$1" = "$2" ] || fail "got: $1; expected: $2"; }
has() { case $1 in *"$2"*) ;; *) fail "got: $1; expected in it: $2" ;; esac; }
hasnt() { case $1 in *"$2"*) fail "got: $1; not expected in it: $2" ;; *) ;; esac; }
# Must fail, and say so.
refused() { words=$1; shift; if out=$(k "$@" 2>&1); then fail "was not refused: $*"; fi; has "$out" "$words"; }
# In the background, its output in the file $out; ends with the operation.
follow() { out=$work/followed; : >"$out"; k "$@" >"$out" 2>&1 & followed=$!; }
# Waits until the followed kubectl has printed something.
seen() {
  tries=0
  until grep -q -e "$1" "$out"; do
    tries=$((tries + 1))
    [ $tries -le 100 ] || fail "waited in vain for $1, got: $(cat "$out")"
    sleep 0.1
  done
}
# The followed kubectl ends by itself, with success.
ends() { wait "$followed" || fail "ended with $?: $(cat "$out")"; followed=; }
map() { k create configmap "$1" --from-literal="${2:-a=b}" >/dev/null; }
field() { k get "$1" "$2" -o "jsonpath={$3}"; }
# A deletion that waits must see the end at once.
quickly() {
  began=$(date +%s); "$@"; took=$(($(date +%s) - began))
  [ $took -le 4 ] || fail "took $took s: $*"
}
pod() { k run "$1" --image=i >/dev/null; }
deployment() { k create deployment "$1" --image="${2:-i}" >/dev/null; }
widget() { printf 'apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: %s}\nspec: {color: %s%s}\n' "$1" "$2" "${3:-}" >"$work/w.yaml"; }
config() { printf 'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s}\ndata: {%s}\n' "$1" "$2" >"$work/c.yaml"; }
service() {
  printf 'apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\nspec:\n  selector: {matchLabels: {a: b}}\n' >"$work/d.yaml"
  printf '  template:\n    metadata: {labels: {a: b}}\n    spec:\n      containers:\n%s' "$1" >>"$work/d.yaml"
}
# An editor that changes `red` to `blue`.
editor() { printf '#!/bin/sh\nsed -i s/red/blue/ "$1"\n' >"$work/editor"; chmod +x "$work/editor"; export KUBE_EDITOR="$work/editor"; }

run() {
case $1 in
'get')
  map m; is "$(k get configmaps | awk '{print $1, $2}')" "NAME DATA
m 1" ;;
'get NAME')
  # For some kubectls a namespace that is not there is what is not found.
  map m; has "$(k get configmap m)" 'm '; k create namespace "$ns" >/dev/null; refused 'configmaps "none" not found' get configmap none ;;
'get -o wide')
  pod p; has "$(k get pods -o wide)" 'NOMINATED NODE' ;;
'get -o json')
  map m; has "$(k get cm -o json)" '"a": "b"' ;;
'get -o yaml')
  map m; has "$(k get cm m -o yaml)" 'a: b' ;;
'get -o name')
  map m; is "$(k get cm -o name)" configmap/m ;;
'get -o jsonpath')
  map m; is "$(k get cm -o 'jsonpath={.items[*].data.a}')" b ;;
'get -o custom-columns')
  map m; is "$(k get cm -o custom-columns=N:.metadata.name --no-headers)" m ;;
'get --sort-by')
  map x a=2; map y a=1; is "$(k get cm --sort-by=.data.a --no-headers | awk '{print $1}' | xargs)" 'y x' ;;
'get --show-labels')
  pod p; has "$(k get pods --show-labels)" run=p ;;
'get -A -l')
  pod "$ns"; is "$(k get pods -A -l "run=$ns" -o name)" "pod/$ns"; is "$(k get pods -A -l "run=$ns,run notin ($ns)" -o name)" '' ;;
'get --field-selector')
  map x; map y; is "$(k get cm --field-selector metadata.name=x -o name)" configmap/x ;;
'get --chunk-size')
  map x; map y; map z; is "$(k get cm --chunk-size=1 -o name | xargs)" 'configmap/x configmap/y configmap/z' ;;
'get all')
  pod p; deployment d; got=$(k get all); has "$got" pod/p; has "$got" deployment.apps/d ;;
'get po,svc,deploy')
  pod p; k expose pod p --port=80 >/dev/null; deployment d
  is "$(k get po,svc,deploy -o name | xargs)" 'pod/p service/p deployment.apps/d' ;;
'get -w')
  map m; follow get configmaps -w; seen '^m '; k label cm m x=y >/dev/null; map n; k delete cm n >/dev/null
  seen '^n '; sleep 0.3; is "$(awk '{print $1}' "$out" | xargs)" 'NAME m m n n' ;;
'get -w --output-watch-events')
  map m; follow get configmaps -w --output-watch-events; seen '^ADDED  *m '; k label cm m x=y >/dev/null; k delete cm m >/dev/null
  seen '^DELETED  *m '; seen '^MODIFIED  *m ' ;;
'get -w -o json')
  map m; follow get cm -w -o json; seen '"a": "b"'; k patch cm m --type merge -p '{"data":{"a":"c"}}' >/dev/null; seen '"a": "c"' ;;
'get --watch-only')
  map m; follow get cm --watch-only; sleep 1; map n; seen '^n '; hasnt "$(cat "$out")" 'm ' ;;
'get NAME -w')
  map m; map n; follow get configmap m -w; seen '^m '; k label cm n x=y >/dev/null; k label cm m x=y >/dev/null; k delete cm m >/dev/null
  sleep 0.3; is "$(awk '{print $1}' "$out" | xargs)" 'NAME m m m' ;;
'get --raw watch')
  map m; follow get --raw "/api/v1/namespaces/$ns/configmaps?watch=1&timeoutSeconds=2"; seen '"type":"ADDED"'; map n; seen '"name":"n"'; ends ;;
'wait --for=condition')
  deployment d; follow wait --for=condition=Available deployment/d --timeout=20s; sleep 1
  k patch deployment d --subresource=status --type merge -p '{"status":{"conditions":[{"type":"Available","status":"True"}]}}' >/dev/null
  ends; has "$(cat "$out")" 'condition met' ;;
'wait --for=delete')
  map m; follow wait --for=delete configmap/m --timeout=20s; sleep 1; k delete cm m --wait=false >/dev/null; ends; has "$(cat "$out")" 'condition met' ;;
'wait --for=jsonpath')
  map m; follow wait --for='jsonpath={.data.a}=c' cm/m --timeout=20s; sleep 1; k patch cm m --type merge -p '{"data":{"a":"c"}}' >/dev/null; ends ;;
'wait that times out')
  map m; refused 'timed out' wait --for='jsonpath={.data.a}=c' cm/m --timeout=1s ;;
'describe configmap')
  map m; has "$(k describe cm m)" 'Name:         m' ;;
'describe secret')
  k create secret generic s --from-literal=a=b >/dev/null; has "$(k describe secret s)" 'a:  1 bytes' ;;
'describe pod')
  pod p; has "$(k describe pod p | tr -s ' ')" 'Image: i' ;;
'describe deployment')
  deployment d; has "$(k describe deployment d | tr -s ' ')" 'Image: i' ;;
'describe service')
  pod p; k expose pod p --port=80 >/dev/null; has "$(k describe service p)" 'Selector:          run=p' ;;
'describe namespace')
  k create namespace "$ns" >/dev/null; has "$(k describe namespace "$ns")" "Name:         $ns" ;;
'describe widget')
  widget w red; k create -f "$work/w.yaml" >/dev/null; has "$(k describe widget w)" 'Color:  red' ;;
'create configmap')
  is "$(k create configmap m --from-literal=a=b)" 'configmap/m created'; refused 'already exists' create configmap m; is "$(field cm m .data.a)" b ;;
'create secret')
  k create secret generic s --from-literal=a=b >/dev/null; is "$(field secret s .data.a)" Yg== ;;
'create namespace')
  k create namespace "$ns" >/dev/null; is "$(k get namespace "$ns" -o name)" "namespace/$ns" ;;
'create deployment')
  deployment d; is "$(field deployment d '.spec.template.spec.containers[0].image')" i ;;
'create service')
  k create service clusterip s --tcp=80:8080 >/dev/null; is "$(field service s '.spec.ports[0].targetPort')" 8080 ;;
'create serviceaccount')
  k create serviceaccount s >/dev/null; is "$(k get sa -o name)" serviceaccount/s ;;
'create job, cronjob')
  k create job j --image=i >/dev/null; k create cronjob c --image=i --schedule='* * * * *' >/dev/null
  is "$(k get jobs,cronjobs -o name | xargs)" 'job.batch/j cronjob.batch/c' ;;
'create role, rolebinding')
  k create role r --verb=get --resource=pods >/dev/null; k create rolebinding b --role=r --user=u >/dev/null; is "$(field rolebinding b .roleRef.name)" r ;;
'create ingress, quota, pdb')
  k create ingress i --rule=h/p=s:80 >/dev/null; k create quota q --hard=pods=1 >/dev/null
  k create poddisruptionbudget b --min-available=1 --selector=a=b >/dev/null; is "$(field pdb b .spec.minAvailable)" 1 ;;
'create -f YAML')
  config m 'a: b'; is "$(k create -f "$work/c.yaml")" 'configmap/m created' ;;
'create -f JSON')
  echo '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"m"},"data":{"a":"b"}}' >"$work/c.json"
  is "$(k create -f "$work/c.json")" 'configmap/m created' ;;
'create -f widget')
  widget w red; k create -f "$work/w.yaml" >/dev/null; is "$(field widget w .spec.color)" red ;;
'create --dry-run=server')
  config m 'a: b'; has "$(k create -f "$work/c.yaml" --dry-run=server)" 'created (server dry run)'; is "$(k get cm -o name)" '' ;;
'create -f generateName')
  printf 'apiVersion: v1\nkind: ConfigMap\nmetadata: {generateName: g-}\n' >"$work/c.yaml"; has "$(k create -f "$work/c.yaml")" 'configmap/g-' ;;
'run, expose')
  pod p; k expose pod p --port=80 >/dev/null; is "$(field service p .spec.selector.run)" p ;;
'apply')
  config m 'a: b, c: d'; is "$(k apply -f "$work/c.yaml")" 'configmap/m created'; is "$(k apply -f "$work/c.yaml")" 'configmap/m unchanged'
  config m 'a: e'; is "$(k apply -f "$work/c.yaml")" 'configmap/m configured'; is "$(field cm m .data)" '{"a":"e"}' ;;
'apply a list by its keys')
  service '      - {name: x, image: i}
      - {name: z, image: j}
'; k apply -f "$work/d.yaml" >/dev/null
  service '      - {name: z, image: k}
'; k apply -f "$work/d.yaml" >/dev/null; is "$(field deployment d '.spec.template.spec.containers[*].image')" k ;;
'apply widget')
  widget w red ', size: 1'; k apply -f "$work/w.yaml" >/dev/null; widget w blue; k apply -f "$work/w.yaml" >/dev/null
  is "$(field widget w .spec)" '{"color":"blue"}'; is "$(k apply -f "$work/w.yaml")" 'widget.example.com/w unchanged' ;;
'apply --validate')
  # Who asks for strict validation gets it of a store in protobuf only: what it has no field for cannot be kept.
  config m 'a: b'
  for how in true strict warn ignore false; do
    [ $how = warn ] && echo 'unknown: 1' >>"$work/c.yaml"
    is "$(k apply --validate=$how -f "$work/c.yaml" | sed 's/ .*//')" configmap/m; k delete cm m >/dev/null
  done ;;
'apply --dry-run=server')
  config m 'a: b'; has "$(k apply --dry-run=server -f "$work/c.yaml")" 'created (server dry run)'; is "$(k get cm -o name)" '' ;;
'apply --server-side')
  config m 'a: b, c: d'; is "$(k apply --server-side -f "$work/c.yaml")" 'configmap/m serverside-applied'
  config m 'a: e'; k apply --server-side -f "$work/c.yaml" >/dev/null; is "$(field cm m .data.a)" e ;;
'apply --server-side removes')
  config m 'a: b, c: d'; k apply --server-side -f "$work/c.yaml" >/dev/null
  config m 'a: e'; k apply --server-side -f "$work/c.yaml" >/dev/null; is "$(field cm m .data)" '{"a":"e"}' ;;
'diff of something new')
  config m 'a: b'; code=0; got=$(k diff -f "$work/c.yaml") || code=$?; is $code 1; has "$got" '+  a: b' ;;
'diff of a change')
  map m; config m 'a: c'; code=0; got=$(k diff -f "$work/c.yaml" 2>&1) || code=$?; has "$got" '+  a: c'; is $code 1; is "$(field cm m .data.a)" b ;;
'diff widget')
  widget w red; k apply -f "$work/w.yaml" >/dev/null; widget w blue; code=0; got=$(k diff -f "$work/w.yaml") || code=$?; is $code 1; has "$got" '+  color: blue' ;;
'replace')
  map m; config m 'c: d'; is "$(k replace -f "$work/c.yaml")" 'configmap/m replaced'; is "$(field cm m .data)" '{"c":"d"}' ;;
'replace --force')
  map m; old=$(field cm m .metadata.uid); config m 'c: d'; quickly k replace --force -f "$work/c.yaml" >/dev/null; [ "$(field cm m .metadata.uid)" != "$old" ] ;;
'label')
  map m; k label cm m x=y >/dev/null; is "$(field cm m .metadata.labels.x)" y; refused 'overwrite is false' label cm m x=z
  k label cm m x- >/dev/null; is "$(field cm m .metadata.labels)" '' ;;
'annotate')
  map m; k annotate cm m x=y >/dev/null; is "$(field cm m .metadata.annotations.x)" y ;;
'patch --type merge')
  map m; k patch cm m --type merge -p '{"data":{"a":null,"c":"d"}}' >/dev/null; is "$(field cm m .data)" '{"c":"d"}' ;;
'patch --type json')
  map m; k patch cm m --type json -p '[{"op":"test","path":"/data/a","value":"b"},{"op":"remove","path":"/data/a"}]' >/dev/null; is "$(field cm m .data.a)" '' ;;
'patch --type strategic')
  deployment d; k patch deployment d -p '{"spec":{"template":{"spec":{"containers":[{"name":"x","image":"j"}]}}}}' >/dev/null
  is "$(field deployment d '.spec.template.spec.containers[*].name' | xargs -n1 | sort | xargs)" 'i x' ;;
'patch --subresource=status')
  pod p; k patch pod p --subresource=status --type merge -p '{"status":{"phase":"Running"},"spec":{"nodeName":"n"}}' >/dev/null
  is "$(field pod p .status.phase)" Running; is "$(field pod p .spec.nodeName)" '' ;;
'edit')
  map m a=red; editor; is "$(k edit cm m)" 'configmap/m edited'; is "$(field cm m .data.a)" blue ;;
'edit widget')
  widget w red; k create -f "$work/w.yaml" >/dev/null; editor; k edit widget w >/dev/null; is "$(field widget w .spec.color)" blue ;;
'set image')
  deployment d; k set image deployment/d '*=j' >/dev/null; is "$(field deployment d '.spec.template.spec.containers[0].image')" j ;;
'rollout restart')
  deployment d; k rollout restart deployment/d >/dev/null; has "$(field deployment d .spec.template.metadata.annotations)" restartedAt ;;
'rollout status')
  deployment d; follow rollout status deployment/d --timeout=20s; seen Waiting
  k patch deployment d --subresource=status --type merge -p '{"status":{"observedGeneration":1,"replicas":1,"updatedReplicas":1,"availableReplicas":1}}' >/dev/null
  ends; has "$(cat "$out")" 'successfully rolled out' ;;
'scale')
  deployment d; k scale deployment d --replicas=3 >/dev/null; is "$(field deployment d .spec.replicas)" 3 ;;
'cordon')
  printf 'apiVersion: v1\nkind: Node\nmetadata: {name: node-1}\n' >"$work/n.yaml"; k create -f "$work/n.yaml" >/dev/null
  k cordon node-1 >/dev/null; is "$(k get nodes --field-selector spec.unschedulable=true -o name)" node/node-1 ;;
'delete NAME')
  map m; has "$(quickly k delete cm m)" 'configmap "m" deleted'; refused 'not found' delete cm m; quickly k delete cm m --ignore-not-found ;;
'delete pod')
  pod p; quickly k delete pod p >/dev/null; is "$(k get pods -o name)" '' ;;
'delete --wait with a finalizer')
  printf 'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m, finalizers: [a.example/b]}\n' >"$work/c.yaml"; k create -f "$work/c.yaml" >/dev/null
  follow delete cm m; seen deleted; kill -0 "$followed"; k patch cm m --type merge -p '{"metadata":{"finalizers":null}}' >/dev/null; quickly ends ;;
'delete -l')
  pod p; pod q; quickly k delete pods -l run=p >/dev/null; is "$(k get pods -o name)" pod/q ;;
'delete --all')
  map m; map n; quickly k delete configmaps --all >/dev/null; is "$(k get cm -o name)" '' ;;
'delete -f')
  config m 'a: b'; k create -f "$work/c.yaml" >/dev/null; quickly k delete -f "$work/c.yaml" >/dev/null; is "$(k get cm -o name)" '' ;;
'delete namespace')
  k create namespace "$ns" >/dev/null; quickly k delete namespace "$ns" >/dev/null ;;
'delete --cascade=foreground')
  deployment d; quickly k delete deployment d --cascade=foreground >/dev/null; is "$(k get deployment -o name)" '' ;;
'explain pods')
  got=$(k explain pods); has "$got" 'Pod'; has "$got" 'spec' ;;
'explain pods.spec')
  has "$(k explain pods.spec)" containers; has "$(k explain pods.spec.containers.image)" 'image' ;;
'explain configmaps.data')
  has "$(k explain configmaps.data)" 'map[string]string' ;;
'explain widgets')
  has "$(k explain widgets)" Widget ;;
'explain --recursive')
  has "$(k explain deployment --recursive)" matchLabels ;;
'api-resources')
  has "$(k api-resources | tr -s ' ')" 'configmaps cm v1 true ConfigMap'; has "$(k api-resources --api-group=example.com)" widgets ;;
'api-resources -o wide')
  has "$(k api-resources -o wide | grep '^pods ' | tr -s ' ')" 'Pod create,delete,deletecollection,get,list,patch,update,watch all' ;;
'api-versions')
  has "$(k api-versions)" apps/v1 ;;
'version')
  has "$(k version 2>/dev/null)" 'v1.3' ;;
'cluster-info')
  has "$(k cluster-info)" 'is running at' ;;
'cluster-info dump')
  has "$(k cluster-info dump)" '"kind": "PodList"' ;;
'events')
  printf 'apiVersion: v1\nkind: Event\nmetadata: {name: e}\ninvolvedObject: {kind: Pod, name: p, namespace: %s}\nreason: Because\nmessage: hello\n' "$ns" >"$work/e.yaml"
  k create -f "$work/e.yaml" >/dev/null; has "$(k get events)" Because; has "$(k events)" Because ;;
'auth can-i')
  is "$(k auth can-i get pods)" yes ;;
*)
  fail "no such operation: $1" ;;
esac
}

if [ $# -ge 3 ]; then
  ns=$(echo "$3" | tr 'A-Z' 'a-z' | tr -cs 'a-z0-9\n' - | sed 's/^-*//; s/-*$//')
  work=$(mktemp -d) followed=
  trap 'if [ -n "$followed" ]; then kill "$followed" 2>/dev/null || true; fi; rm -rf "$work"' EXIT
  run "$3"
  exit
fi

sed -n "s/^'\(.*\)')\$/\1/p" "$0" | while IFS= read -r operation; do
  if why=$(timeout $limit sh "$0" "$kubectl" "$url" "$operation" 2>&1 >/dev/null </dev/null); then
    printf '%s\tok\n' "$operation"
  else
    [ $? -ne 124 ] || why="not done in $limit s"
    printf '%s\tFAIL\t%s\n' "$operation" "$(printf '%s' "$why" | tr '\n\t' '  ' | cut -c1-300)"
  fi
done
