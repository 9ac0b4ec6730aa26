/**
 * All objects of a deployment to Kubernetes, in the order in which they are created.
 *
 * The objects need KEDA 2.20 and Kubernetes 1.33. No secret is among them: the Secret of the join key is made by hand.
 */
import { CA_FILE, type Deployment, JOIN_KEY, LABELS, WORKER } from './deployment.ts'
import { networkPolicy } from './network-policy.ts'
import { scaledJob } from './scaled-job.ts'
import { statefulSetDocuments } from './stateful-set.ts'
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
