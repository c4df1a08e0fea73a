{{/* The name of every object of a release. */}}
{{- define "revcast.name" -}}
{{- if contains "revcast" .Release.Name -}}
{{ .Release.Name | trunc 63 | trimSuffix "-" }}
{{- else -}}
{{ printf "%s-revcast" .Release.Name | trunc 63 | trimSuffix "-" }}
{{- end -}}
{{- end -}}

{{/* The beginning of a name outside of the release's namespace. */}}
{{- define "revcast.clusterName" -}}
{{ .Release.Namespace }}:{{ include "revcast.name" . }}
{{- end -}}

{{- define "revcast.selector" -}}
app.kubernetes.io/name: revcast
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "revcast.labels" -}}
{{ include "revcast.selector" . }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version | replace "+" "_" }}
{{- end -}}

{{/* Whether something is asked of the upstream in revcast's own name. */}}
{{- define "revcast.delegates" -}}
{{- if or (eq .Values.authentication.mode "delegated") (eq .Values.authorization.mode "delegated") }}true{{ end -}}
{{- end -}}

{{/* Ports of URLs, each once. */}}
{{- define "revcast.ports" -}}
{{- $ports := list -}}
{{- range . -}}
{{- $ports = append $ports (. | trimSuffix "/" | splitList ":" | last) -}}
{{- end -}}
{{ $ports | uniq | join "," }}
{{- end -}}

{{/* Refuses values that cannot be served with. */}}
{{- define "revcast.check" -}}
{{- if not .Values.etcd.endpoints -}}
{{- fail "etcd.endpoints is empty: give the client URLs of the etcd that kube-apiserver writes into, as --set 'etcd.endpoints={https://10.0.0.10:2379}'" -}}
{{- end -}}
{{- range .Values.etcd.endpoints -}}
{{- if not (regexMatch "^https?://.+:[0-9]+/?$" .) -}}
{{- fail (printf "etcd.endpoints: %s is no URL of a host and a port, as https://10.0.0.10:2379" .) -}}
{{- end -}}
{{- if and (hasPrefix "https:" .) (not $.Values.etcd.secretName) -}}
{{- fail (printf "etcd.secretName is empty: %s needs a Secret with ca.crt, tls.crt and tls.key" .) -}}
{{- end -}}
{{- end -}}
{{- if not .Values.tls.secretName -}}
{{- fail "tls.secretName is empty: clients' tokens need TLS; name a Secret with tls.crt and tls.key" -}}
{{- end -}}
{{- if and (include "revcast.delegates" .) (not .Values.upstream.url) -}}
{{- fail "upstream.url is empty, and authentication or authorization is delegated to it: give the URL of kube-apiserver, or set authentication.mode and authorization.mode to local" -}}
{{- end -}}
{{- if and (eq .Values.upstream.identity "front-proxy") (not .Values.upstream.frontProxySecretName) -}}
{{- fail "upstream.frontProxySecretName is empty: upstream.identity front-proxy needs a Secret with tls.crt and tls.key" -}}
{{- end -}}
{{- if and (ne .Values.upstream.identity "client") (not .Values.upstream.url) -}}
{{- fail "upstream.url is empty: upstream.identity says how requests are forwarded to it" -}}
{{- end -}}
{{- if and (eq .Values.authentication.mode "local") (not .Values.authentication.tokensSecretName) -}}
{{- fail "authentication.tokensSecretName is empty: authentication.mode local needs a Secret with tokens.csv" -}}
{{- end -}}
{{- if and (eq .Values.authentication.mode "local") .Values.authentication.tokenAudiences -}}
{{- fail "authentication.tokenAudiences has no effect where authentication.mode is local" -}}
{{- end -}}
{{- if and (eq .Values.authorization.mode "local") (not .Values.authorization.rulesConfigMapName) -}}
{{- fail "authorization.rulesConfigMapName is empty: without rules every user may do everything" -}}
{{- end -}}
{{- if and .Values.metrics.enabled (or (not .Values.metrics.from) (not .Values.networkPolicy.enabled)) -}}
{{- fail "metrics.enabled opens a port without TLS: name in metrics.from who may connect to it, and leave networkPolicy.enabled true" -}}
{{- end -}}
{{- end -}}
