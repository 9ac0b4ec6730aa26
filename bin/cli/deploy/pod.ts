/**
 * The pod of a worker.
 *
 * bubblewrap makes user namespaces inside the pod, so the pod has a user namespace of its own, an uncovered /proc, and
 * SYS_ADMIN in its bounding set, which lets the runtime's system call filter pass namespaces. The worker is an ordinary
 * user in it and holds no capability. No probe ever ends a worker: one whose line is down goes on with its run.
 */
import { CA_FILE, type Deployment, JOIN_KEY, LABELS, stopSecondsOf, WORKER } from './deployment.ts'
import type { YamlMap } from './yaml.ts'

const USER = 1000
const VOLUME = '/var/lib/switchyard-worker'
/** A volume belongs to root and may hold `lost+found`, so the worker makes a folder of its own in it. */
const DATA = `${VOLUME}/data`
/** The program of the image, as its entry point starts it. */
const PROGRAM = ['node', '/opt/switchyard/bin/switchyard-worker.mjs']
const JOIN_KEY_FOLDER = '/etc/switchyard/join'
const CA_FOLDER = '/etc/switchyard/ca'
const TMP_GIB = 1

/** An autoscaler of nodes moves no pod with these. */
const STAYS = {
  'cluster-autoscaler.kubernetes.io/safe-to-evict': 'false',
  'karpenter.sh/do-not-disrupt': 'true',
} as const

/** Tells the host at once that a pod which is about to leave takes no new run, and waits for those that it has. */
export const DRAIN_BEFORE_STOP: YamlMap = {
  preStop: { exec: { command: [...PROGRAM, 'worker', 'drain', '--wait', `--data-dir=${DATA}`] } },
}

interface PodParts {
  /** The options of `switchyard worker` that only one recipe has. */
  readonly args: readonly string[]
  /** Keys of the container that only one recipe has. */
  readonly container?: YamlMap
  readonly restartPolicy: 'Never' | 'Always'
  /** The volume named `data`; absent when claims make it. */
  readonly dataVolume?: YamlMap
}

export function podTemplate(deployment: Deployment, parts: PodParts): YamlMap {
  return {
    metadata: { labels: LABELS, annotations: STAYS },
    spec: {
      serviceAccountName: WORKER,
      automountServiceAccountToken: false,
      enableServiceLinks: false,
      hostUsers: false,
      restartPolicy: parts.restartPolicy,
      terminationGracePeriodSeconds: stopSecondsOf(deployment),
      securityContext: {
        runAsUser: USER,
        runAsGroup: USER,
        runAsNonRoot: true,
        fsGroup: USER,
        fsGroupChangePolicy: 'OnRootMismatch',
        seccompProfile: { type: 'RuntimeDefault' },
      },
      containers: [container(deployment, parts)],
      volumes: volumes(deployment, parts),
    },
  }
}

function container(deployment: Deployment, parts: PodParts): YamlMap {
  const { image, cpus, memoryGib, caSecret } = deployment
  return {
    name: 'worker',
    image,
    args: workerArguments(deployment, parts.args),
    securityContext: {
      procMount: 'Unmasked',
      readOnlyRootFilesystem: true,
      // Kubernetes refuses SYS_ADMIN together with `false`.
      allowPrivilegeEscalation: true,
      capabilities: { drop: ['ALL'], add: ['SYS_ADMIN'] },
    },
    resources: {
      requests: {
        cpu: String(cpus),
        memory: `${memoryGib}Gi`,
        'ephemeral-storage': `${scratchGib(deployment, parts)}Gi`,
      },
      limits: { memory: `${memoryGib}Gi`, 'ephemeral-storage': `${scratchGib(deployment, parts)}Gi` },
    },
    // Says that the worker has joined; nothing is ended when it says no.
    readinessProbe: {
      exec: { command: ['/usr/bin/test', '-s', `${DATA}/credential.json`] },
      periodSeconds: 5,
      timeoutSeconds: 5,
      failureThreshold: 1,
    },
    ...parts.container,
    volumeMounts: [
      { name: 'data', mountPath: VOLUME },
      { name: 'tmp', mountPath: '/tmp' },
      { name: 'join-key', mountPath: JOIN_KEY_FOLDER, readOnly: true },
      ...(caSecret === undefined ? [] : [{ name: 'ca', mountPath: CA_FOLDER, readOnly: true }]),
    ],
  }
}

function workerArguments(deployment: Deployment, own: readonly string[]): string[] {
  const { hostUrl, insecure, caSecret, fingerprint, privateCodeHosts } = deployment
  return [
    'worker',
    `--host=${hostUrl}`,
    `--join-key-file=${JOIN_KEY_FOLDER}/${JOIN_KEY}`,
    `--data-dir=${DATA}`,
    ...own,
    ...(insecure ? ['--insecure'] : []),
    ...(caSecret === undefined ? [] : [`--ca-file=${CA_FOLDER}/${CA_FILE}`]),
    ...(fingerprint === undefined ? [] : [`--fingerprint=${fingerprint}`]),
    ...privateCodeHosts.map((host) => `--private-code-host=${host}`),
  ]
}

/** Logs and the writable parts of the container count too. */
const scratchGib = ({ diskGib }: Deployment, { dataVolume }: PodParts): number =>
  TMP_GIB + 1 + (dataVolume === undefined ? 0 : diskGib)

function volumes({ joinKeySecret, caSecret }: Deployment, { dataVolume }: PodParts): YamlMap[] {
  return [
    ...(dataVolume === undefined ? [] : [{ name: 'data', ...dataVolume }]),
    { name: 'tmp', emptyDir: { sizeLimit: `${TMP_GIB}Gi` } },
    secretVolume('join-key', joinKeySecret, JOIN_KEY),
    ...(caSecret === undefined ? [] : [secretVolume('ca', caSecret, CA_FILE)]),
  ]
}

/** 0400; the pod's group can read it too, because the kubelet gives volumes to `fsGroup`. */
const secretVolume = (name: string, secretName: string, key: string): YamlMap => ({
  name,
  secret: { secretName, defaultMode: 0o400, items: [{ key, path: key }] },
})
