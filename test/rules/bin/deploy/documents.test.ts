/** The objects of a deployment to Kubernetes: valid by the published schemas, and with the promises that runs rely on. */
import { readFileSync, writeFileSync } from 'node:fs'
import { describe, expect, test } from '@jest/globals'
import {
  DEFAULT_DEPLOYMENT,
  type Deployment,
  RECIPES,
  type Recipe,
} from '../../../../bin/cli/deploy/deployment.ts'
import { formatKubernetes, kubernetesDocuments } from '../../../../bin/cli/deploy/documents.ts'
import type { YamlMap } from '../../../../bin/cli/deploy/yaml.ts'
import { schemaProblems } from '../../../support/kubernetes-schemas.ts'

/** The version of the package, which the build puts into the default image. */
const { version } = JSON.parse(
  readFileSync(new URL('../../../../package.json', import.meta.url), 'utf8'),
) as {
  version: string
}

const deploy = (recipe: Recipe, more: Partial<Deployment> = {}): Deployment => ({
  ...DEFAULT_DEPLOYMENT,
  image: `registry.example/switchyard-worker:${version}`,
  recipe,
  ...more,
})
const documentsOf = (recipe: Recipe, more: Partial<Deployment> = {}) =>
  kubernetesDocuments(deploy(recipe, more))

const FAR_ENDS: Readonly<Record<string, Partial<Deployment>>> = {
  'the defaults': {},
  'the least': {
    maxWorkers: 1,
    maxRunMinutes: 1,
    idleSeconds: 1,
    concurrency: 1,
    cpus: 1,
    memoryGib: 1,
    diskGib: 1,
  },
  'the most': {
    namespace: 'n'.repeat(63),
    image: `registry.example:5000/${'deep/'.repeat(20)}worker:v1@sha256:${'a'.repeat(64)}`,
    hostUrl: 'wss://[2001:db8::7]:65535/below/path',
    joinKeySecret: 'key.of.workers',
    caSecret: 'ca-1',
    storageClass: 'fast.ssd',
    privateCodeHosts: ['git.corp.example:8443', '10.0.0.7', 'fd00::7'],
    maxWorkers: 10_000,
    maxRunMinutes: 10_080,
    idleSeconds: 604_800,
    concurrency: 64,
    cpus: 1_024,
    memoryGib: 16_384,
    diskGib: 65_536,
  },
}

/** Keys that KEDA knows and the package with its schemas does not, which describes KEDA 2.10. */
const NEWER_KEYS = [
  /^\.spec\.advanced\.scalingModifiers\b.* is unknown$/, // KEDA 2.12
  /^\.spec\.jobTargetRef\.template\.metadata\.(labels|annotations)\b.* is unknown$/, // KEDA 2.15
]

type Path = readonly (string | number)[]
function at(value: unknown, ...path: Path): unknown {
  return path.reduce<unknown>((each, key) => Reflect.get(Object(each), key), value)
}
const find = (documents: readonly YamlMap[], kind: string): YamlMap => {
  const found = documents.find((each) => each.kind === kind)
  if (found === undefined) throw new Error(`there is no ${kind}`)
  return found
}
/** The pod template of a recipe's workers. */
function templateOf(recipe: Recipe, more: Partial<Deployment> = {}): YamlMap {
  const documents = documentsOf(recipe, more)
  return recipe === 'jobs'
    ? (at(find(documents, 'ScaledJob'), 'spec', 'jobTargetRef', 'template') as YamlMap)
    : (at(find(documents, 'StatefulSet'), 'spec', 'template') as YamlMap)
}
const containerOf = (recipe: Recipe, more: Partial<Deployment> = {}): unknown =>
  at(templateOf(recipe, more), 'spec', 'containers', 0)
const argsOf = (recipe: Recipe, more: Partial<Deployment> = {}) =>
  at(containerOf(recipe, more), 'args') as string[]

describe.each(RECIPES)('recipe %s', (recipe) => {
  test.each(Object.entries(FAR_ENDS))(
    '%s: every object is as its schema says, without unknown keys',
    (_, more) => {
      const documents = documentsOf(recipe, more)
      const problems = documents.flatMap((each) =>
        schemaProblems(each).map((line) => `${each.kind}: ${line}`),
      )
      expect(
        problems.filter((line) => !NEWER_KEYS.some((key) => key.test(line.replace(/^\w+: /, '')))),
      ).toEqual([])
      // The schema of Kubernetes knows the whole pod, and KEDA's is older.
      const job = {
        apiVersion: 'batch/v1',
        kind: 'Job',
        metadata: { name: 'any' },
        spec: jobSpec(documents, recipe),
      }
      expect(schemaProblems(job)).toEqual([])
    },
  )

  test('deploy/kubernetes holds what the command prints for the defaults', () => {
    const file = new URL(`../../../../deploy/kubernetes/${recipe}/workers.yaml`, import.meta.url)
    const printed = formatKubernetes(deploy(recipe))
    if (process.env.UPDATE_EXPECTATIONS === '1') writeFileSync(file, printed)
    expect(readFileSync(file, 'utf8')).toBe(printed)
    const kustomization = readFileSync(new URL('kustomization.yaml', file), 'utf8')
    expect(kustomization).toContain('resources:\n  - workers.yaml\n')
  })

  test('a pod may make sandboxes, and may do nothing else that an ordinary one may not', () => {
    const template = templateOf(recipe)
    expect(at(template, 'spec')).toMatchObject({
      hostUsers: false,
      automountServiceAccountToken: false,
      enableServiceLinks: false,
      securityContext: { runAsUser: 1000, runAsNonRoot: true, seccompProfile: { type: 'RuntimeDefault' } },
    })
    expect(at(containerOf(recipe), 'securityContext')).toEqual({
      procMount: 'Unmasked',
      readOnlyRootFilesystem: true,
      allowPrivilegeEscalation: true,
      capabilities: { drop: ['ALL'], add: ['SYS_ADMIN'] },
    })
    for (const key of ['hostNetwork', 'hostPID', 'hostIPC', 'initContainers'])
      expect(at(template, 'spec', key)).toBeUndefined()
  })

  test('the join key is a file of the pod, and stands in no document and in no variable', () => {
    expect(argsOf(recipe)).toContain('--join-key-file=/etc/switchyard/join/join-key')
    expect(at(containerOf(recipe), 'volumeMounts')).toContainEqual({
      name: 'join-key',
      mountPath: '/etc/switchyard/join',
      readOnly: true,
    })
    expect(at(templateOf(recipe), 'spec', 'volumes')).toContainEqual({
      name: 'join-key',
      secret: {
        secretName: 'switchyard-join-key',
        defaultMode: 0o400,
        items: [{ key: 'join-key', path: 'join-key' }],
      },
    })
    expect(at(containerOf(recipe), 'env')).toBeUndefined()
    expect(documentsOf(recipe).map(({ kind }) => kind)).not.toContain('Secret')
  })

  test('a stop waits for the longest run, and no probe ends a worker', () => {
    expect(at(templateOf(recipe, { maxRunMinutes: 7 }), 'spec', 'terminationGracePeriodSeconds')).toBe(
      7 * 60 + 300,
    )
    expect(argsOf(recipe).join(' ')).not.toContain('--drain-seconds')
    for (const probe of ['livenessProbe', 'startupProbe'])
      expect(at(containerOf(recipe), probe)).toBeUndefined()
    expect(at(containerOf(recipe), 'readinessProbe', 'exec', 'command')).toContain(
      '/var/lib/switchyard-worker/data/credential.json',
    )
  })

  test('nobody connects to a worker, and it reaches nothing private but its host', () => {
    const { spec } = find(documentsOf(recipe, { hostUrl: 'https://10.1.2.3:4401' }), 'NetworkPolicy')
    expect(spec).toMatchObject({ podSelector: {}, policyTypes: ['Ingress', 'Egress'], ingress: [] })
    expect(at(spec, 'egress', 1)).toEqual({
      to: [{ ipBlock: { cidr: '10.1.2.3/32' } }],
      ports: [{ protocol: 'TCP', port: 4401 }],
    })
    expect(at(spec, 'egress', 2, 'to', 0, 'ipBlock', 'except')).toContain('169.254.0.0/16')
    expect(at(spec, 'egress', 3)).toBeUndefined()
  })

  test('a private code host is allowed to the worker and by the network', () => {
    const more = { privateCodeHosts: ['git.corp.example:8443', 'fd00::7'] }
    expect(argsOf(recipe, more).slice(-2)).toEqual([
      '--private-code-host=git.corp.example:8443',
      '--private-code-host=fd00::7',
    ])
    const { spec } = find(documentsOf(recipe, more), 'NetworkPolicy')
    expect(at(spec, 'egress', 3, 'ports')).toEqual([{ protocol: 'TCP', port: 8443 }])
    expect(at(spec, 'egress', 4, 'to')).toEqual([{ ipBlock: { cidr: 'fd00::7/128' } }])
  })
})

function jobSpec(documents: readonly YamlMap[], recipe: Recipe): YamlMap {
  if (recipe === 'jobs') return at(find(documents, 'ScaledJob'), 'spec', 'jobTargetRef') as YamlMap
  return { template: at(find(documents, 'StatefulSet'), 'spec', 'template') as YamlMap }
}

describe('scaling in ends no run', () => {
  test('jobs end by themselves, and a change of the recipe lets them', () => {
    expect(at(find(documentsOf('jobs'), 'ScaledJob'), 'spec')).toMatchObject({
      rollout: { strategy: 'gradual' },
      jobTargetRef: { backoffLimit: 0, ttlSecondsAfterFinished: 3600 },
    })
    expect(argsOf('jobs')).toContain('--once')
    expect(at(templateOf('jobs'), 'spec', 'restartPolicy')).toBe('Never')
    expect(
      at(find(documentsOf('jobs'), 'ScaledJob'), 'spec', 'jobTargetRef', 'activeDeadlineSeconds'),
    ).toBeUndefined()
  })

  test('a job is counted as wanted until its worker has joined', () => {
    expect(at(find(documentsOf('jobs'), 'ScaledJob'), 'spec', 'scalingStrategy')).toEqual({
      strategy: 'accurate',
      pendingPodConditions: ['Ready'],
    })
  })

  test('a lasting worker keeps its volume and leaves slowly, the busy ones counted', () => {
    const documents = documentsOf('statefulset')
    expect(at(find(documents, 'StatefulSet'), 'spec')).toMatchObject({
      podManagementPolicy: 'Parallel',
      persistentVolumeClaimRetentionPolicy: { whenScaled: 'Retain' },
    })
    expect(at(containerOf('statefulset'), 'lifecycle', 'preStop', 'exec', 'command')).toEqual([
      ...['node', '/opt/switchyard/bin/switchyard-worker.mjs', 'worker', 'drain', '--wait'],
      '--data-dir=/var/lib/switchyard-worker/data',
    ])
    expect(at(containerOf('jobs'), 'lifecycle')).toBeUndefined()
    const scaled = at(find(documents, 'ScaledObject'), 'spec')
    expect(scaled).toMatchObject({ cooldownPeriod: 600 })
    expect(at(scaled, 'advanced', 'scalingModifiers')).toEqual({ formula: 'waiting + active', target: '2' })
    expect(at(scaled, 'advanced', 'horizontalPodAutoscalerConfig', 'behavior', 'scaleDown')).toEqual({
      stabilizationWindowSeconds: 600,
      policies: [{ type: 'Pods', value: 1, periodSeconds: 600 }],
    })
    const names = (at(scaled, 'triggers') as unknown[]).map((each) => [
      at(each, 'name'),
      at(each, 'metadata', 'valueLocation'),
    ])
    expect(names).toEqual([
      ['waiting', 'wanted'],
      ['active', 'activeRuns'],
    ])
  })
})

test.each([
  ['https://host.example:4401', 'https://host.example:4401/api/worker/demand'],
  ['wss://host.example/below/', 'https://host.example/below/api/worker/demand'],
  ['https://host.example/below/ws/worker', 'https://host.example/below/api/worker/demand'],
  ['ws://10.0.0.1:4401', 'http://10.0.0.1:4401/api/worker/demand'],
])('for a host at %s, KEDA asks %s', (hostUrl, url) => {
  const trigger = at(find(documentsOf('jobs', { hostUrl }), 'ScaledJob'), 'spec', 'triggers', 0)
  expect(trigger).toEqual({
    type: 'metrics-api',
    metadata: { url, format: 'json', valueLocation: 'wanted', targetValue: '1', authMode: 'bearer' },
    authenticationRef: { name: 'switchyard-worker' },
  })
})

test('the validators refuse what they must: wrong types and unknown keys', () => {
  const service = { apiVersion: 'v1', kind: 'Service', metadata: { name: 'a' }, spec: { clusterIP: 'None' } }
  expect(schemaProblems(service)).toEqual([])
  expect(schemaProblems({ ...service, spec: { clusterIp: 'None' } })).toEqual(['.spec.clusterIp is unknown'])
  expect(schemaProblems({ ...service, spec: { clusterIP: 7 } })).not.toEqual([])
  expect(schemaProblems({ apiVersion: 'v2', kind: 'Service' })).toEqual(['no schema is known for v2 Service'])
})
