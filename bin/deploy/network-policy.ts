/**
 * The network policy of workers: nobody connects to them; they reach names, their host, and public addresses at the
 * ports of git, registries and model APIs.
 *
 * A policy knows addresses, not names. So a host with a name is reachable by its port at every address, and one with an
 * address only there.
 */
import { isIPv4, isIPv6 } from 'node:net'
import { originsOfHostEntry } from '../../protocol/git-address.ts'
import { type Deployment, LABELS, WORKER } from './deployment.ts'
import type { YamlMap } from './yaml.ts'

const DNS_PORT = 53
/** https and git over ssh. */
const PUBLIC_PORTS = [443, 22]
/** The name service of a cluster listens in pods of kube-system, and the address of a cache on the node. */
const DNS_PEERS: readonly YamlMap[] = [
  { namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': 'kube-system' } } },
  { ipBlock: { cidr: '169.254.20.10/32' } },
]
const PUBLIC_PEERS: readonly YamlMap[] = [
  {
    ipBlock: {
      cidr: '0.0.0.0/0',
      except: [
        '10.0.0.0/8',
        '100.64.0.0/10',
        '127.0.0.0/8',
        '169.254.0.0/16',
        '172.16.0.0/12',
        '192.168.0.0/16',
      ],
    },
  },
  { ipBlock: { cidr: '::/0', except: ['fc00::/7', 'fe80::/10'] } },
]
const ANYWHERE: readonly YamlMap[] = [{ ipBlock: { cidr: '0.0.0.0/0' } }, { ipBlock: { cidr: '::/0' } }]

export function networkPolicy({ namespace, hostUrl, privateCodeHosts }: Deployment): YamlMap {
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
