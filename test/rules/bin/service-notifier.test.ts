/** The messages of a service to its manager: their words and their times. */
import { expect, test } from '@jest/globals'
import { openServiceNotifier } from '../../../bin/process/service-notifier.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { createRecordingLog } from '../../support/recording-log.ts'

function open(env: NodeJS.ProcessEnv, fails = false) {
  const clock = new ManualClock()
  const log = createRecordingLog()
  const sent: string[] = []
  const send = async (words: readonly string[], socket: string) => {
    sent.push([socket, ...words].join(' | '))
    if (fails) throw new Error('no systemd-notify')
  }
  const redact = (text: string) => text.replaceAll('secret', '***')
  const takeSent = () => sent.splice(0)
  return { clock, log, env, takeSent, notifier: openServiceNotifier({ env, clock, log, redact, send }) }
}

test('without a service manager nothing is sent', () => {
  const { notifier, clock, takeSent } = open({ WATCHDOG_USEC: '60000000' })
  notifier.ready(() => 'works')
  notifier.stopping()
  expect([notifier.isService, clock.timers, takeSent()]).toEqual([false, 0, []])
})

test('a ready service says its status, and the watchdog’s word at half of its time', async () => {
  const { notifier, clock, takeSent } = open({ NOTIFY_SOCKET: '/run/n', WATCHDOG_USEC: '20000000' })
  expect(takeSent()).toEqual([])
  let runs = 0
  notifier.ready(() => `${runs} runs\n with a secret`)
  expect(takeSent()).toEqual(['/run/n | READY=1 | WATCHDOG=1 | STATUS=0 runs with a ***'])
  runs = 2
  await clock.advance(9_999)
  expect(takeSent()).toEqual([])
  await clock.advance(10_001)
  expect(takeSent()).toEqual(Array(2).fill('/run/n | WATCHDOG=1 | STATUS=2 runs with a ***'))
  notifier.stopping()
  await clock.advance(10_000)
  expect(takeSent()).toEqual([
    '/run/n | STOPPING=1 | WATCHDOG=1 | STATUS=2 runs with a ***',
    '/run/n | WATCHDOG=1 | STATUS=2 runs with a ***',
  ])
})

test.each([
  ['absent', {}],
  ['for another process', { WATCHDOG_USEC: '20000000', WATCHDOG_PID: '0' }],
])('where the watchdog is %s only the status goes on', async (_, watchdog) => {
  const { notifier, clock, takeSent } = open({ NOTIFY_SOCKET: '/run/n', ...watchdog })
  notifier.ready(() => 'works')
  await clock.advance(30_000)
  expect(takeSent()).toEqual(['/run/n | READY=1 | STATUS=works', '/run/n | STATUS=works'])
})

test('a shell between the manager and this process leaves the watchdog to it', () => {
  const watchdog = { WATCHDOG_USEC: '20000000', WATCHDOG_PID: String(process.ppid) }
  const { notifier, takeSent } = open({ NOTIFY_SOCKET: '/run/n', ...watchdog })
  notifier.ready(() => '')
  expect(takeSent()).toEqual(['/run/n | READY=1 | WATCHDOG=1'])
})

test('child processes inherit nothing of it', () => {
  const { env } = open({ PATH: '/bin', NOTIFY_SOCKET: '/run/n', WATCHDOG_USEC: '1', WATCHDOG_PID: '1' })
  expect(env).toEqual({ PATH: '/bin' })
})

test('a manager that can not be told is in the log once', async () => {
  const { notifier, clock, log } = open({ NOTIFY_SOCKET: '/run/n' }, true)
  notifier.ready(() => '')
  await clock.advance(60_000)
  expect(log.lines.map(({ level }) => level)).toEqual(['warn'])
})
