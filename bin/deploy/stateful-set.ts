/**
 * The recipe `statefulset`: lasting workers with a volume each, so that sandboxes can be resumed and follow-ups find the
 * checkout of their run. A worker that is scaled in takes no new run and ends after its last one.
 */
import { takeOverFlag } from '../../core/owner.ts'
import { demandTrigger } from './demand-trigger.ts'
import { type Deployment, LABELS, WORKER } from './deployment.ts'
import { DRAIN_BEFORE_STOP, podTemplate } from './pod.ts'
import type { YamlMap } from './yaml.ts'

const POLL_SECONDS = 10
const COOLDOWN_SECONDS = 600
const SELECTOR = { 'app.kubernetes.io/name': WORKER } as const

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
