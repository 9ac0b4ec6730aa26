import { describe, expect, test } from '@jest/globals'
import { DRAIN_MS_MAX } from '../../../actors/root/root.machine.ts'
import { LOCAL_WORKER_STOP_MS_MAX } from '../../../actors/workers/local-worker-process.ts'
import type { LocalWorkerExit } from '../../../core/ports/machines.ts'
import { no, yes } from '../../../core/result.ts'
import { createInMemoryHost } from '../../support/host-in-memory.ts'

describe('the root', () => {
  test('boots, opens the listeners, serves, and exits with 0 when asked to', async () => {
    const steps: string[] = []
    const { host, clock, ended } = createInMemoryHost(undefined, {
      openListeners: async (hostApi) => {
        steps.push(`doors opened, ${hostApi.isOpen() ? 'ready' : 'not ready'} for the first request`)
        return yes({ close: async () => void steps.push('doors closed') })
      },
    })
    host.start()
    await clock.settle()
    expect(host.hostApi.isOpen()).toBe(true)
    host.stop('enough')
    expect(host.hostApi.isOpen()).toBe(false)
    await clock.settle()
    expect(steps).toEqual(['doors opened, ready for the first request', 'doors closed'])
    expect(ended).toEqual([{ exitCode: 0, reason: 'enough' }])
  })

  test('a port that is taken ends the host with 69 and a reason that names the port', async () => {
    const { host, clock, ended } = createInMemoryHost(undefined, {
      openListeners: async () => no('conflict', 'port 4400 is taken'),
    })
    host.start()
    await clock.settle()
    expect(ended).toEqual([{ exitCode: 69, reason: 'port 4400 is taken' }])
  })

  test('listeners that do not close are not waited for beyond their time', async () => {
    const { host, clock, ended } = createInMemoryHost(undefined, {
      openListeners: async () => yes({ close: () => new Promise<void>(() => {}) }),
    })
    host.start()
    await clock.settle()
    host.stop('enough')
    await clock.advance(DRAIN_MS_MAX - 1)
    expect(ended).toEqual([])
    await clock.advance(1)
    expect(ended).toHaveLength(1)
  })

  test('the listeners stay open until the local worker has ended, which still reports', async () => {
    const steps: string[] = []
    let end = () => {}
    const ended = new Promise<LocalWorkerExit>((resolve) => {
      end = () => resolve({ code: 0 })
    })
    const worker = { drain: () => {}, stop: () => void steps.push('worker stops'), kill: () => {}, ended }
    const { host, clock } = createInMemoryHost(undefined, {
      localWorker: { start: async () => yes(worker) },
      openListeners: async () => yes({ close: async () => void steps.push('doors closed') }),
    })
    host.start()
    for (let turn = 0; turn < 5; turn += 1) await clock.settle()
    host.stop('enough')
    await clock.advance(LOCAL_WORKER_STOP_MS_MAX - 1)
    expect(steps).toEqual(['worker stops'])
    end()
    await clock.settle()
    expect(steps).toEqual(['worker stops', 'doors closed'])
  })

  test('stopping twice is stopping once', async () => {
    const { host, clock, ended } = createInMemoryHost()
    host.start()
    await clock.settle()
    host.stop('one')
    host.stop('two')
    await clock.settle()
    expect(ended).toEqual([{ exitCode: 0, reason: 'one' }])
  })

  test('no timer outlives the host', async () => {
    const { host, clock } = createInMemoryHost()
    host.start()
    await clock.settle()
    host.stop('enough')
    await clock.settle()
    expect(clock.timers).toBe(0)
  })

  test('a store that breaks ends the host with 70 and the reason, at once', async () => {
    const closed: string[] = []
    const { host, clock, ended, store } = createInMemoryHost(undefined, {
      openListeners: async () => yes({ close: async () => void closed.push('doors') }),
    })
    host.start()
    await clock.settle()
    store.database.breakDown('EIO on sync')
    await clock.settle()
    expect(ended).toEqual([{ exitCode: 70, reason: 'the store is broken: EIO on sync' }])
    expect(closed).toEqual(['doors'])
  })

  test('a host that was taken over ends with 75 and the reason, without an orderly end', async () => {
    const { host, clock, ended, store } = createInMemoryHost(undefined, {
      openListeners: async () => yes({ close: async () => {} }),
    })
    host.start()
    await clock.settle()
    store.database.breakDown('somebody else owns it', { takenOver: true })
    expect(ended).toEqual([{ exitCode: 75, reason: 'somebody else owns it' }])
    await clock.settle()
    expect(ended).toHaveLength(1)
  })

  test('a full disk refuses changes with its reason, and accepts them again once there is space', async () => {
    const { host, clock, store, ended } = createInMemoryHost()
    host.start()
    await clock.settle()
    store.database.fill('no room left')
    expect(await host.hostApi.changeSettings({ sandbox: { concurrency: 3 } })).toMatchObject({
      ok: false,
      refusal: { kind: 'unavailable', message: expect.stringContaining('no room left') },
    })
    store.database.drain()
    const change = host.hostApi.changeSettings({ sandbox: { concurrency: 3 } })
    await clock.settle()
    expect(await change).toMatchObject({ ok: true })
    expect(ended).toEqual([])
  })

  test('an edit made between reading the file and watching it is not missed', async () => {
    const { host, clock, store } = createInMemoryHost('{}')
    await store.config.replace('{}', '{"sandbox":{"concurrency":9}}')
    host.start()
    await clock.settle()
    expect(host.hostApi.config().sandbox.concurrency).toBe(9)
  })

  test('asked to stop while the listeners are opening, the host closes them once they are open', async () => {
    const steps: string[] = []
    let opened: () => void = () => {}
    const { host, clock, ended } = createInMemoryHost(undefined, {
      openListeners: async () => {
        await new Promise<void>((resolve) => {
          opened = resolve
        })
        steps.push('opened')
        return yes({ close: async () => void steps.push('closed') })
      },
    })
    host.start()
    await clock.settle()
    host.stop('enough')
    await clock.settle()
    expect(ended).toEqual([])
    opened()
    await clock.settle()
    expect(steps).toEqual(['opened', 'closed'])
    expect(ended).toEqual([{ exitCode: 0, reason: 'enough' }])
  })

  test('a full disk does not keep the host from stopping', async () => {
    const { host, clock, ended, store } = createInMemoryHost()
    host.start()
    await clock.settle()
    store.database.fill()
    host.stop('enough')
    await clock.settle()
    expect(ended).toEqual([{ exitCode: 0, reason: 'enough' }])
  })

  test('listeners that throw end the host with 70', async () => {
    const { host, clock, ended } = createInMemoryHost(undefined, {
      openListeners: async () => {
        throw new Error('launch.json could not be written')
      },
    })
    host.start()
    await clock.settle()
    expect(ended).toEqual([
      { exitCode: 70, reason: expect.stringContaining('launch.json could not be written') },
    ])
  })

  test('a wrong configuration of the listeners ends the host with 78', async () => {
    const { host, clock, ended } = createInMemoryHost(undefined, {
      openListeners: async () => no('invalid', 'no certificate'),
    })
    host.start()
    await clock.settle()
    expect(ended).toMatchObject([{ exitCode: 78 }])
  })

  test('snapshots that cannot be read end the host with 70, before any listener is open', async () => {
    const { host, clock, ended, store } = createInMemoryHost(undefined, {
      openListeners: async () => {
        throw new Error('not to be opened')
      },
    })
    store.database.snapshots.kinds = () => {
      throw new Error('page 7 is damaged')
    }
    host.start()
    await clock.settle()
    expect(ended).toEqual([{ exitCode: 70, reason: expect.stringContaining('page 7 is damaged') }])
  })

  test('a store that broke before the host listened to it is noticed', async () => {
    const { host, clock, ended, store } = createInMemoryHost()
    store.database.breakDown('EIO')
    host.start()
    await clock.settle()
    expect(ended).toMatchObject([{ exitCode: 70 }])
  })

  test('a push listener that throws does not keep other listeners from the push', async () => {
    const { host, clock } = createInMemoryHost()
    const received: string[] = []
    host.start()
    await clock.settle()
    host.hostApi.onPush(() => {
      throw new Error('deaf')
    })
    host.hostApi.onPush((push) => received.push(push.type))
    const change = host.hostApi.changeSettings({ sandbox: { concurrency: 3 } })
    await clock.settle()
    expect(await change).toMatchObject({ ok: true })
    expect(received).toEqual(['config'])
  })
})
