/** The local worker in a whole host: pairing tokens, pauses, changes of the configuration, and the host's end. */
import { expect, test } from '@jest/globals'
import type {
  LocalWorkerExit,
  LocalWorkerLauncher,
  LocalWorkerOptions,
  LocalWorkerProcess,
} from '../../../core/ports/machines.ts'
import { no, yes } from '../../../core/result.ts'
import { createInMemoryHost } from '../../support/host-in-memory.ts'

interface FakeProcess extends LocalWorkerProcess {
  readonly order: LocalWorkerOptions
  readonly done: string[]
  end(how: LocalWorkerExit): void
}

function fakeProcess(order: LocalWorkerOptions): FakeProcess {
  let end: (how: LocalWorkerExit) => void = () => {}
  const ended = new Promise<LocalWorkerExit>((resolve) => {
    end = resolve
  })
  const done: string[] = []
  const process: FakeProcess = {
    order,
    done,
    ended,
    end,
    drain: () => void done.push('drain'),
    stop: () => {
      done.push('stop')
      end({ code: 0 })
    },
    kill: () => void done.push('kill'),
  }
  return process
}

function hostWithWorker(config = '{}') {
  const processes: FakeProcess[] = []
  let isStubborn = false
  const localWorker: LocalWorkerLauncher = {
    async start(order) {
      if (isStubborn) return no('failed', 'no such program')
      const process = fakeProcess(order)
      processes.push(process)
      return yes(process)
    },
  }
  const built = createInMemoryHost(config, { localWorker })
  built.host.start()
  const settle = async () => {
    // Some answers arrive a few promises later and cause further ones.
    for (let turn = 0; turn < 5; turn++) await built.clock.settle()
  }
  const refuse = (on: boolean) => {
    isStubborn = on
  }
  return { ...built, processes, settle, refuse }
}

test('starts once the listeners are open, with the configured concurrency', async () => {
  const { processes, settle } = hostWithWorker('{"sandbox":{"concurrency":7}}')
  await settle()
  expect(processes.map(({ order }) => [order.concurrency, order.enrollAgain])).toEqual([[7, false]])
  expect(processes[0]?.order.createPairingToken()).toMatch(/^wp-[\w-]{43}$/)
})

test('does not start when the configuration disables it', async () => {
  const { processes, settle } = hostWithWorker('{"worker":{"local":false}}')
  await settle()
  expect(processes).toEqual([])
})

test('follows the configuration: another concurrency, then off', async () => {
  const { processes, settle, host } = hostWithWorker()
  await settle()
  void host.hostApi.changeSettings({ sandbox: { concurrency: 4 } })
  await settle()
  expect(processes[0]?.done).toEqual(['drain'])
  processes[0]?.end({ code: 0 })
  await settle()
  expect(processes[1]?.order.concurrency).toBe(4)
  void host.hostApi.changeSettings({ worker: { local: false } })
  await settle()
  expect(processes[1]?.done).toEqual(['drain'])
  processes[1]?.end({ code: 0 })
  await settle()
  expect(processes).toHaveLength(2)
})

test('refused, it enrolls again; after an unrecoverable exit it restarts only after minutes', async () => {
  const { processes, settle, clock } = hostWithWorker()
  await settle()
  processes[0]?.end({ code: 77 })
  await settle()
  await clock.advance(1_000)
  await settle()
  expect(processes[1]?.order.enrollAgain).toBe(true)
  processes[1]?.end({ code: 69 })
  await settle()
  await clock.advance(299_000)
  await settle()
  expect(processes).toHaveLength(2)
  await clock.advance(1_000)
  await settle()
  expect(processes).toHaveLength(3)
})

test('a failed start is retried, and the log says why', async () => {
  const { processes, settle, clock, log, refuse } = hostWithWorker()
  refuse(true)
  await settle()
  expect(JSON.stringify(log.lines)).toContain('no such program')
  refuse(false)
  await clock.advance(1_000)
  await settle()
  expect(processes).toHaveLength(1)
})

test('it stops together with the host', async () => {
  const { processes, settle, host, ended } = hostWithWorker()
  await settle()
  host.stop('the test')
  await settle()
  expect(processes[0]?.done).toContain('stop')
  expect(processes[0]?.done).not.toContain('kill')
  expect(ended).toEqual([{ exitCode: 0, reason: 'the test' }])
})
