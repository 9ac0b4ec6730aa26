/** Starts a run from words; the form is loaded when somebody asks for it. */
import { loadPageStyles } from '../page-styles.ts'

export async function startRun(): Promise<void> {
  const [{ askForTicket }] = await Promise.all([import('../tickets/create-ticket.tsx'), loadPageStyles()])
  await askForTicket(true)
}
