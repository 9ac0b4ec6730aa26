/**
 * All objects of a deployment to Kubernetes, in the order in which they are created.
 *
 * The objects need KEDA 2.20 and Kubernetes 1.33. No secret is among them: the Secret of the join key is made by hand.
 */

import { isIPv4, isIPv6 } from 'node:net'
import { originsOfHostEntry } from '../../../protocol/git-address.ts'
import {
  ALLOCATED_IPV6,
  NAT64,
  NOT_PUBLIC_IPV4,
  NOT_PUBLIC_IPV6,
  SIX_TO_FOUR,
} from '../../../providers/http/public-addresses.ts'
import { CA_FILE, type Deployment, JOIN_KEY, LABELS, WORKER } from './deployment.ts'
import { scaledJob, statefulSetDocuments } from './recipes.ts'
import { formatYamlDocuments, type YamlMap } from './yaml.ts'

export function kubernetesDocuments(deployment: Deployment): YamlMap[] {
  const own = { jobs: () => [scaledJob(deployment)], statefulset: () => statefulSetDocuments(deployment) }
  return [
    namespaceDocument(deployment),
    serviceAccount(deployment),
    networkPolicy(deployment),
    triggerAuthentication(deployment),
    ...own[deployment.recipe](),
  ]
}

export function formatKubernetes(deployment: Deployment): string {
  return formatYamlDocuments(kubernetesDocuments(deployment), headOf(deployment))
}

/** KEDA sends the key in a header, which must not end with a newline. */
function headOf({ recipe, namespace, joinKeySecret, caSecret }: Deployment): string[] {
  const kind = recipe === 'jobs' ? ' --ephemeral' : ''
  const create = `kubectl --namespace ${namespace} create secret generic`
  return [
    `Workers of switchyard, recipe ${recipe}. This file with values of your own: switchyard deploy kubernetes --print`,
    'Its Secret is made by hand, once the namespace is there:',
    `  switchyard workers join-keys create kubernetes${kind} | tr -d '\\n' |`,
    `    ${create} ${joinKeySecret} --from-file=${JOIN_KEY}=/dev/stdin`,
    ...(caSecret === undefined ? [] : [`  ${create} ${caSecret} --from-file=${CA_FILE}=FILE`]),
  ]
}

/** The standard `privileged` is the only one that lets pods have SYS_ADMIN and an uncovered /proc. */
function namespaceDocument({ namespace }: Deployment): YamlMap {
  return {
    apiVersion: 'v1',
    kind: 'Namespace',
    metadata: { name: namespace, labels: { ...LABELS, 'pod-security.kubernetes.io/enforce': 'privileged' } },
  }
}

function serviceAccount({ namespace }: Deployment): YamlMap {
  return {
    apiVersion: 'v1',
    kind: 'ServiceAccount',
    metadata: { name: WORKER, namespace, labels: LABELS },
    automountServiceAccountToken: false,
  }
}

/** KEDA shows the join key to the demand route as its bearer. */
function triggerAuthentication({ namespace, joinKeySecret }: Deployment): YamlMap {
  return {
    apiVersion: 'keda.sh/v1alpha1',
    kind: 'TriggerAuthentication',
    metadata: { name: WORKER, namespace, labels: LABELS },
    spec: { secretTargetRef: [{ parameter: 'token', name: joinKeySecret, key: JOIN_KEY }] },
  }
}

// ---- the network policy --------------------------------------------------------------------------------------------

const DNS_PORT = 53
/** https and git over ssh. */
const PUBLIC_PORTS = [443, 22]
const [NAT64_PREFIX = '', NAT64_PREFIX_BITS] = NAT64.split('/')
/** The name service of a cluster listens in pods of kube-system, and the address of a cache on the node. */
const DNS_PEERS: readonly YamlMap[] = [
  { namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': 'kube-system' } } },
  { ipBlock: { cidr: '169.254.20.10/32' } },
]
/** The blocks inside NAT64's prefix that lead to IPv4 addresses which are not public. */
const NOT_PUBLIC_NAT64 = NOT_PUBLIC_IPV4.map((block) => {
  const [address, bits] = block.split('/')
  // A cluster wants an address in its canonical form, which `URL` writes.
  const { hostname } = new URL(`http://[${NAT64_PREFIX}${address}]/`)
  return `${hostname.slice(1, -1)}/${Number(NAT64_PREFIX_BITS) + Number(bits)}`
})
const PUBLIC_PEERS: readonly YamlMap[] = [
  { ipBlock: { cidr: '0.0.0.0/0', except: [...NOT_PUBLIC_IPV4] } },
  { ipBlock: { cidr: ALLOCATED_IPV6, except: [...NOT_PUBLIC_IPV6, SIX_TO_FOUR] } },
  { ipBlock: { cidr: NAT64, except: NOT_PUBLIC_NAT64 } },
]
const ANYWHERE: readonly YamlMap[] = [{ ipBlock: { cidr: '0.0.0.0/0' } }, { ipBlock: { cidr: '::/0' } }]

/**
 * The network policy of workers: nobody connects to them; they reach names, their host, and public addresses at the
 * ports of git, registries and model APIs.
 *
 * A policy knows addresses, not names. So a host with a name is reachable by its port at every address, and one with an
 * address only there.
 */
function networkPolicy({ namespace, hostUrl, privateCodeHosts }: Deployment): YamlMap {
  const host = new URL(hostUrl)
  const hosts = privateCodeHosts.map(splitHostEntry)
  return {
    apiVersion: 'networking.k8s.io/v1',
    kind: 'NetworkPolicy',
    metadata: { name: WORKER, namespace, labels: LABELS },
    spec: {
      // Every pod of the namespace, which is there for workers alone.
      podSelector: {},
      policyTypes: ['Ingress', 'Egress'],
      ingress: [],
      egress: [
        { to: DNS_PEERS, ports: [...ports('UDP', [DNS_PORT]), ...ports('TCP', [DNS_PORT])] },
        { to: peersOf(host.hostname), ports: ports('TCP', [portOf(host)]) },
        { to: PUBLIC_PEERS, ports: ports('TCP', PUBLIC_PORTS) },
        ...hosts.map((each) => ({ to: peersOf(each.hostname), ports: ports('TCP', each.ports) })),
      ],
    },
  }
}

const ports = (protocol: 'TCP' | 'UDP', numbers: readonly number[]): YamlMap[] =>
  numbers.map((port) => ({ protocol, port }))

/** `URL` leaves out the usual port. */
const portOf = ({ protocol, port }: URL): number =>
  port === '' ? (protocol === 'http:' || protocol === 'ws:' ? 80 : 443) : Number(port)

function peersOf(hostname: string): readonly YamlMap[] {
  const address = hostname.replace(/^\[|\]$/g, '')
  if (isIPv4(address)) return [{ ipBlock: { cidr: `${address}/32` } }]
  if (isIPv6(address)) return [{ ipBlock: { cidr: `${address}/128` } }]
  return ANYWHERE
}

/** An entry without a port means the usual ports of git. */
function splitHostEntry(entry: string): { readonly hostname: string; readonly ports: readonly number[] } {
  const origins = originsOfHostEntry(entry).map((origin) => new URL(`ssh://${origin}`))
  return { hostname: origins[0]?.hostname ?? '', ports: origins.map(({ port }) => Number(port)) }
}
