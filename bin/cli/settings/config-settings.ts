/** The list of all settings. The build puts the finished list here in place of the schemas that it is made of. */
import { type ListedSetting, SETTING_LIST } from '../../../protocol/setting-list.ts'

export const configSettings = async (): Promise<readonly ListedSetting[]> => SETTING_LIST
