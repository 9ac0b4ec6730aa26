/** The worker that the host runs itself: what becomes of its process. */
import { type LocalWorkerEvent, localWorkerMachine } from '../../../actors/workers/local-worker.machine.ts'
import type { Story } from '../trail.ts'
import { testTrails } from '../trail-tests.ts'

const wanted: LocalWorkerEvent = { type: 'wanted', concurrency: 2 }
const wider: LocalWorkerEvent = { type: 'wanted', concurrency: 5 }
const unwanted: LocalWorkerEvent = { type: 'unwanted' }
const started: LocalWorkerEvent = { type: 'started' }
const failed: LocalWorkerEvent = { type: 'not started' }
const died: LocalWorkerEvent = { type: 'ended', ending: 'died' }
const unauthorized: LocalWorkerEvent = { type: 'ended', ending: 'unauthorized' }
const unrecoverable: LocalWorkerEvent = { type: 'ended', ending: 'unrecoverable' }
const steady: LocalWorkerEvent = { type: 'steady' }
const pauseOver: LocalWorkerEvent = { type: 'pause over' }

const input = undefined

const stories: readonly Story<LocalWorkerEvent>[] = [
  {
    title: 'where none is wanted, there is none',
    input,
    events: [unwanted],
  },
  {
    title: 'one that dies comes back, after a pause that grows until it has lasted',
    input,
    events: [wanted, started, died, pauseOver, started, died, pauseOver, started, steady, died],
  },
  {
    title: 'one that can’t be started is tried again',
    input,
    events: [wanted, failed, pauseOver, started],
  },
  {
    title: 'one that the host does not know any more is invited anew',
    input,
    events: [wanted, started, unauthorized, pauseOver, started],
  },
  {
    title: 'one that only a person can help is left in peace for longer',
    input,
    events: [wanted, started, unrecoverable],
    onlyLastLine: true,
  },
  {
    title: 'another concurrency takes another process, when the old one has done what it had',
    input,
    events: [wanted, started, wider, died, started],
  },
  {
    title: 'the same wish again changes nothing',
    input,
    events: [wanted, started, wanted],
    onlyLastLine: true,
  },
  {
    title: 'switched off, it may finish what it has',
    input,
    events: [wanted, started, unwanted, died],
  },
  {
    title: 'switched off while it is being started, it is ended as soon as it is there',
    input,
    events: [wanted, unwanted, started, died],
  },
  {
    title: 'switched off while it waits to be started again, it is not',
    input,
    events: [wanted, failed, unwanted],
    onlyLastLine: true,
  },
]

testTrails(localWorkerMachine, stories)
