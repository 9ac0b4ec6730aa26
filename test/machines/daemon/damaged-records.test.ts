/** A daemon whose disk has damaged records: it goes on, names the damage, and deletes nothing that belongs to them. */
import { expect, jest, test } from '@jest/globals'
import { DamagedRecord } from '../../../core/damage.ts'
import { DaemonConversation } from './daemon-conversation.ts'

/** A daemon whose agent is running, and whose host has not acknowledged the last reports. */
async function working(): Promise<DaemonConversation> {
  const conversation = new DaemonConversation()
  await conversation.start()
  await conversation.register()
  await conversation.dispatch('ls-1')
  await conversation.endPreparation('ls-1')
  conversation.transcript()
  return conversation
}

const errorsIn = (conversation: DaemonConversation) =>
  conversation.transcript().filter((line) => line.startsWith('error: '))

test('how far the host has acknowledged reports is asked again when its record is damaged', async () => {
  const conversation = await working()
  const { keyValues } = conversation.disk
  const get = keyValues.get.bind(keyValues)
  const id = 'outbox ls-1'
  jest.spyOn(keyValues, 'get').mockImplementation((collection, key) => {
    if (`${collection} ${key}` === id)
      throw new DamagedRecord({ id, where: 'a table', message: `${id} is damaged` })
    return get(collection, key)
  })
  await conversation.restart()
  expect(errorsIn(conversation)).toEqual([expect.stringContaining(`${id} is damaged`)])
  await conversation.register({ 'ls-1': 7 })
  const [completion, ...others] = conversation.frames.filter(({ type }) => type === 'run-complete')
  expect(completion).toMatchObject({ leaseId: 'ls-1', seq: 8, outcome: { status: 'failed' } })
  expect(others).toEqual([])
})

test('what is damaged on its disk is named at its start', async () => {
  const conversation = await working()
  const damage = {
    id: 'value settlement ls-7',
    where: 'a table',
    message: 'the stored settlement is damaged',
  }
  jest.replaceProperty(conversation.disk, 'damage', { all: () => [damage], onChange: () => () => {} })
  await conversation.restart()
  expect(errorsIn(conversation)).toEqual([expect.stringContaining(damage.id)])
})

test('the reports of an execution whose record is damaged stay on disk', async () => {
  const conversation = await working()
  const frames = [...conversation.disk.keyValues.all('frame')]
  expect(frames).not.toEqual([])
  const { snapshots } = conversation.disk
  const all = snapshots.all.bind(snapshots)
  jest
    .spyOn(snapshots, 'all')
    .mockImplementation((kind) =>
      kind === 'execution' ? [['ls-1', { damaged: 'execution ls-1 is damaged' }]] : all(kind),
    )
  await conversation.restart()
  expect(errorsIn(conversation)).toEqual([expect.stringContaining('execution ls-1')])
  await conversation.register()
  expect([...conversation.disk.keyValues.all('frame')]).toEqual(frames)
})
