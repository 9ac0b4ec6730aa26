/** The two recipes of a deployment, each with KEDA's trigger on the host's demand route. */
import { takeOverFlag } from '../../../core/owner.ts'
import { type Deployment, LABELS, WORKER } from './deployment.ts'
import { DRAIN_BEFORE_STOP, podTemplate } from './pod.ts'
import type { YamlMap } from './yaml.ts'

const POLL_SECONDS = 10
const COOLDOWN_SECONDS = 600
const SELECTOR = { 'app.kubernetes.io/name': WORKER } as const

/**
 * The recipe `statefulset`: lasting workers with a volume each, so that sandboxes can be resumed and follow-ups find
 * the checkout of their run. A worker that is scaled in takes no new run and ends after its last one.
 */
export function statefulSetDocuments(deployment: Deployment): YamlMap[] {
  return [
    governingService(deployment),
    statefulSet(deployment),
    disruptionBudget(deployment),
    scaledObject(deployment),
  ]
}

const metadataOf = ({ namespace }: Deployment): YamlMap => ({ name: WORKER, namespace, labels: LABELS })

/** A StatefulSet names a service. Workers listen to nobody, so this one has no ports. */
function governingService(deployment: Deployment): YamlMap {
  return {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: metadataOf(deployment),
    spec: { clusterIP: 'None', selector: SELECTOR },
  }
}

function statefulSet(deployment: Deployment): YamlMap {
  const { concurrency } = deployment
  return {
    apiVersion: 'apps/v1',
    kind: 'StatefulSet',
    metadata: metadataOf(deployment),
    spec: {
      serviceName: WORKER,
      selector: { matchLabels: SELECTOR },
      podManagementPolicy: 'Parallel',
      persistentVolumeClaimRetentionPolicy: { whenScaled: 'Retain', whenDeleted: 'Retain' },
      template: podTemplate(deployment, {
        // A volume that is mounted by one node at a time: a node that is gone owns nothing any more.
        args: [`--concurrency=${concurrency}`, takeOverFlag('exclusive-volume')],
        container: { lifecycle: DRAIN_BEFORE_STOP },
        restartPolicy: 'Always',
      }),
      volumeClaimTemplates: [dataClaim(deployment)],
    },
  }
}

function dataClaim({ diskGib, storageClass }: Deployment): YamlMap {
  return {
    metadata: { name: 'data' },
    spec: {
      accessModes: ['ReadWriteOnce'],
      ...(storageClass === undefined ? {} : { storageClassName: storageClass }),
      resources: { requests: { storage: `${diskGib}Gi` } },
    },
  }
}

/** An upgrade of the nodes then empties one worker after the other, instead of all at once. */
function disruptionBudget(deployment: Deployment): YamlMap {
  return {
    apiVersion: 'policy/v1',
    kind: 'PodDisruptionBudget',
    metadata: metadataOf(deployment),
    spec: {
      maxUnavailable: 1,
      unhealthyPodEvictionPolicy: 'AlwaysAllow',
      selector: { matchLabels: SELECTOR },
    },
  }
}

/** Runs that wait and runs that go on are added, so that a busy fleet does not look superfluous. */
function scaledObject(deployment: Deployment): YamlMap {
  const { maxWorkers, concurrency } = deployment
  return {
    apiVersion: 'keda.sh/v1alpha1',
    kind: 'ScaledObject',
    metadata: metadataOf(deployment),
    spec: {
      scaleTargetRef: { apiVersion: 'apps/v1', kind: 'StatefulSet', name: WORKER },
      pollingInterval: POLL_SECONDS,
      cooldownPeriod: COOLDOWN_SECONDS,
      minReplicaCount: 0,
      maxReplicaCount: maxWorkers,
      advanced: {
        scalingModifiers: { formula: 'waiting + active', target: String(concurrency) },
        horizontalPodAutoscalerConfig: {
          behavior: {
            scaleDown: {
              stabilizationWindowSeconds: COOLDOWN_SECONDS,
              policies: [{ type: 'Pods', value: 1, periodSeconds: COOLDOWN_SECONDS }],
            },
          },
        },
      },
      triggers: [
        demandTrigger(deployment, 'wanted', concurrency, 'waiting'),
        demandTrigger(deployment, 'activeRuns', concurrency, 'active'),
      ],
    },
  }
}

// ---- jobs ----------------------------------------------------------------------------------------------------------

const FINISHED_JOBS_MAX = 20
/** So long the logs of an ended worker can be read. */
const FINISHED_SECONDS_MAX = 3_600

/**
 * The recipe `jobs`: a job for each run that no worker has room for. A job ends by itself, so scaling in ends no run.
 */
export function scaledJob(deployment: Deployment): YamlMap {
  const { namespace, maxWorkers, idleSeconds, diskGib } = deployment
  return {
    apiVersion: 'keda.sh/v1alpha1',
    kind: 'ScaledJob',
    metadata: { name: WORKER, namespace, labels: LABELS },
    spec: {
      pollingInterval: POLL_SECONDS,
      maxReplicaCount: maxWorkers,
      successfulJobsHistoryLimit: FINISHED_JOBS_MAX,
      failedJobsHistoryLimit: FINISHED_JOBS_MAX,
      // The default deletes running jobs when this object changes.
      rollout: { strategy: 'gradual' },
      // `wanted` counts no run that has a worker, so only jobs that have not joined yet are subtracted.
      scalingStrategy: { strategy: 'accurate', pendingPodConditions: ['Ready'] },
      triggers: [demandTrigger(deployment, 'wanted', 1)],
      jobTargetRef: {
        parallelism: 1,
        completions: 1,
        // The host queues a lost run again by itself, for another worker.
        backoffLimit: 0,
        ttlSecondsAfterFinished: FINISHED_SECONDS_MAX,
        template: podTemplate(deployment, {
          args: ['--once', `--idle-seconds=${idleSeconds}`, '--concurrency=1'],
          restartPolicy: 'Never',
          dataVolume: { emptyDir: { sizeLimit: `${diskGib}Gi` } },
        }),
      },
    },
  }
}

// ---- the trigger ---------------------------------------------------------------------------------------------------

/**
 * @param field of the answer of the demand route
 * @param name for a formula; absent where the trigger stands alone
 */
function demandTrigger(
  { hostUrl }: Deployment,
  field: 'wanted' | 'activeRuns',
  target: number,
  name?: string,
): YamlMap {
  return {
    type: 'metrics-api',
    ...(name === undefined ? {} : { name }),
    metadata: {
      url: demandUrl(hostUrl),
      format: 'json',
      valueLocation: field,
      targetValue: String(target),
      authMode: 'bearer',
    },
    authenticationRef: { name: WORKER },
  }
}

/** The workers' address may name the scheme or the path of their socket. */
function demandUrl(hostUrl: string): string {
  const { protocol, host, pathname } = new URL(hostUrl)
  const scheme = protocol === 'wss:' || protocol === 'https:' ? 'https' : 'http'
  const path = pathname.replace(/\/+$/, '').replace(/\/ws\/worker$/, '')
  return `${scheme}://${host}${path}/api/worker/demand`
}
