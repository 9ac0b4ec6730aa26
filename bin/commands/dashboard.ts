/** `switchyard dashboard`: serves the dashboard's page on this machine until Ctrl-C, and opens it. */
import { DASHBOARD_PAGE } from '../pages/page-kinds.ts'
import { type ServePageOptions, servePage } from '../pages/serve-page.ts'

export const dashboard = (options: ServePageOptions): Promise<void> => servePage(DASHBOARD_PAGE, options)
