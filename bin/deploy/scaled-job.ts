/**
 * The recipe `jobs`: a job for each run that no worker has room for. A job ends by itself, so scaling in ends no run.
 */
import { demandTrigger } from './demand-trigger.ts'
import { type Deployment, LABELS, WORKER } from './deployment.ts'
import { podTemplate } from './pod.ts'
import type { YamlMap } from './yaml.ts'

const POLL_SECONDS = 10
const FINISHED_JOBS_MAX = 20
/** So long the logs of an ended worker can be read. */
const FINISHED_SECONDS_MAX = 3_600

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
