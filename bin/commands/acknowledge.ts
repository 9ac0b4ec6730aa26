/** `switchyard runs acknowledge`: a person knows what was lost with a damaged database that was set aside. */
import type { CommandContext } from '../client/run-command.ts'

export async function acknowledge({ client, output }: CommandContext): Promise<void> {
  const { items } = await client.readAttention()
  const losses = items.filter(({ mayAcknowledge }) => mayAcknowledge === true)
  for (const { id } of losses) await client.acknowledgeAttention({ body: { id } })
  if (output.format === 'json') output.json({ acknowledged: losses })
  else if (losses.length === 0) output.note('Nothing is lost that was not acknowledged before.')
  else for (const { message } of losses) output.data(output.stdout.clean(`acknowledged: ${message}`))
}
