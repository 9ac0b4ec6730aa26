/** `switchyard deploy kubernetes`: each option in the manifests, and values that would change the documents around them. */
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { describe, expect, test } from '@jest/globals'
import { createProgram } from '../../../bin/cli/program.ts'
import { runCommand } from '../../support/command-process.ts'
import { tempFolder } from '../../support/temp-folder.ts'

interface YamlReader {
  safeLoadAll(text: string): unknown[]
}
const reader: YamlReader = createRequire(import.meta.url)('js-yaml')

interface PrintedObject {
  readonly kind: string
  readonly metadata: { readonly name: string; readonly namespace?: string }
}

const FINGERPRINT = 'AB:'.repeat(31).concat('cd')

async function print(...args: string[]) {
  const folder = tempFolder()
  const printed = runCommand(['deploy', 'kubernetes', ...args], folder)
  return { code: await printed.exit, out: printed.out(), err: printed.err() }
}

const file = (recipe: string): string =>
  readFileSync(new URL(`../../../deploy/kubernetes/${recipe}/workers.yaml`, import.meta.url), 'utf8')

test('--print prints the files of deploy/kubernetes, needs no host, and says what is an example', async () => {
  const jobs = await print('--print')
  expect([jobs.code, jobs.out]).toEqual([0, file('jobs')])
  expect(jobs.err).toContain('--host-url, --image')
  expect(jobs.err).toContain('join key')
  expect(jobs.out).toContain('create secret generic switchyard-join-key --from-file=join-key=/dev/stdin')
  const sets = await print('--print', '--recipe', 'statefulset', '--quiet')
  expect(sets).toEqual({ code: 0, out: file('statefulset'), err: '' })
})

test('without --print nothing is printed, and the cure is named', async () => {
  const { code, out, err } = await print()
  expect([code, out]).toEqual([2, ''])
  expect(err).toContain('deploy kubernetes --print')
})

test('every option of the recipe jobs is in the documents', async () => {
  const { out, err } = await print(
    ...[
      '--print',
      '--namespace',
      'fleet',
      '--image',
      'reg.example:5000/w:1',
      '--host-url',
      'https://h.example:9/',
    ],
    ...['--join-key-secret', 'key-1', '--ca-secret', 'ca-1', '--private-code-host', 'git.example:8443'],
    ...['--fingerprint', FINGERPRINT],
    ...['--max-workers', '7', '--max-run-minutes', '9', '--idle-seconds', '11'],
    ...['--cpus', '3', '--memory-gib', '5', '--disk-gib', '33'],
  )
  const objects = reader.safeLoadAll(out) as PrintedObject[]
  expect(objects.map(({ metadata }) => metadata.namespace ?? metadata.name)).toEqual(Array(5).fill('fleet'))
  expect(objects.at(-1)).toMatchObject({
    kind: 'ScaledJob',
    spec: {
      maxReplicaCount: 7,
      triggers: [{ metadata: { url: 'https://h.example:9/api/worker/demand' } }],
      jobTargetRef: {
        template: {
          spec: {
            terminationGracePeriodSeconds: 9 * 60 + 300,
            containers: [
              {
                image: 'reg.example:5000/w:1',
                args: expect.arrayContaining([
                  ...[
                    '--host=https://h.example:9',
                    `--fingerprint=${FINGERPRINT}`,
                    '--idle-seconds=11',
                    '--private-code-host=git.example:8443',
                  ],
                  '--ca-file=/etc/switchyard/ca/ca.crt',
                ]),
                resources: { requests: { cpu: '3', memory: '5Gi' }, limits: { memory: '5Gi' } },
              },
            ],
            volumes: expect.arrayContaining([
              { name: 'data', emptyDir: { sizeLimit: '33Gi' } },
              expect.objectContaining({ secret: expect.objectContaining({ secretName: 'key-1' }) }),
              expect.objectContaining({ secret: expect.objectContaining({ secretName: 'ca-1' }) }),
            ]),
          },
        },
      },
    },
  })
  expect(out).toContain('create secret generic ca-1 --from-file=ca.crt=FILE')
  expect(err).not.toContain('Example values')
})

test('the options of the recipe statefulset are in the documents, and --json is one list', async () => {
  const { out } = await print(
    ...['--print', '--recipe', 'statefulset', '--concurrency', '5', '--storage-class', 'fast', '--json'],
    ...['--host-url', 'http://10.0.0.1:4401', '--insecure'],
  )
  const { kind, items } = JSON.parse(out) as { kind: string; items: PrintedObject[] }
  expect(kind).toBe('List')
  expect(items.find((each) => each.kind === 'StatefulSet')).toMatchObject({
    spec: {
      template: {
        spec: { containers: [{ args: expect.arrayContaining(['--concurrency=5', '--insecure']) }] },
      },
      volumeClaimTemplates: [{ spec: { storageClassName: 'fast' } }],
    },
  })
})

describe('refused', () => {
  test.each([
    ['an option of the other recipe', ['--recipe', 'statefulset', '--idle-seconds', '5'], '--idle-seconds'],
    ['an option of the other recipe', ['--concurrency', '5'], '--concurrency'],
    ['an unencrypted line', ['--host-url', 'http://host.example:4401'], '--insecure'],
  ])('%s: %j', async (_, args, named) => {
    const { code, out, err } = await print('--print', ...args)
    expect([code, out]).toEqual([2, ''])
    expect(err).toContain(named)
  })

  const HOSTILE = [
    '',
    ' ',
    'a b',
    'a\nb',
    'a\n---\nkind: Secret',
    'a: b',
    '- a',
    '#',
    '{{x}}',
    '"',
    "'",
    '$(id)',
    '&a',
    '*a',
  ]
  const MORE: Readonly<Record<string, readonly string[]>> = {
    '--namespace': ['Upper', '-a', 'a.b', 'a'.repeat(64), 'a/b'],
    '--image': ['--privileged', 'UPPER/a', 'a:', 'a@sha256:12', `a/${'b'.repeat(600)}`, '../a', 'http://a/b'],
    '--host-url': [
      'host.example',
      'ftp://host.example',
      'https://user:word@host.example',
      'https://host.example/?a=b',
      'https://host.example/\n--privileged',
      'https://127.0.0.1:4401',
      'https://localhost',
    ],
    '--join-key-secret': ['Upper', 'a..b', 'a'.repeat(254), 'a/b'],
    '--ca-secret': ['Upper', '-a'],
    '--fingerprint': ['AB:CD', 'zz'],
    '--storage-class': ['Upper', 'a_b'],
    '--private-code-host': ['https://git.example', 'git.example/a', '-x'],
    '--max-workers': ['0', '-1', '1e3', '10001'],
    '--max-run-minutes': ['0', '10081'],
    '--idle-seconds': ['0', '604801'],
    '--concurrency': ['0', '65'],
    '--cpus': ['0', '1.5'],
    '--memory-gib': ['0', '4Gi'],
    '--disk-gib': ['0', '-5'],
  }

  test.each(Object.entries(MORE))('%s: values that are no such thing', async (option, values) => {
    for (const value of [...HOSTILE, ...values]) {
      const program = createProgram()
      const verb = program.commands
        .find((each) => each.name() === 'deploy')
        ?.commands.find((each) => each.name() === 'kubernetes')
      verb?.configureOutput({ outputError: () => {} })
      expect(() => verb?.parseOptions([`${option}=${value}`])).toThrow(/argument '.*' is invalid/s)
    }
  })
})
